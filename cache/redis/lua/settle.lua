-- Ends a record.
-- KEYS: the record, the log, its shard's tail and claims in flight. ARGV: fence, nonce, state, how
-- long it is kept, cut, frames (empty: a released one that shows nothing), how
-- long the end of a log is kept, what the ledger books (empty: nothing), since
-- when its readers may have had their end (0: not yet), whether nothing is done
-- if somebody reads the log, for how much longer each of owed counts
local r = redis.call('HMGET', KEYS[1], 'state', 'fence', 'settler', 'owed', 'did', 'wanted')
local nonce, state, frames = ARGV[2], ARGV[3], ARGV[6]
if nonce ~= '' then -- sent again?
  if r[3] == nonce and r[2] == ARGV[1] then return {'ok'} end
  local _, _, _, of = recall(r[5], nonce, 'settle')
  if of == ARGV[1] then return {'ok'} end
end
if r[1] ~= 'dispatched' or r[2] ~= ARGV[1] then return {'fenced'} end
if ARGV[10] == '1' and r[6] then return {'followed'} end

local _, now = clock()
if ARGV[8] ~= '' then redis.call('RPUSH', KEYS[3], ARGV[8]) end
redis.call('HSET', KEYS[1], 'state', state, 'settler', nonce, 'settled', now, 'cut', ARGV[5], 'lapses', '', 'ended', ARGV[9])
redis.call('ZREM', KEYS[4], inflight(KEYS[1], ARGV[1]))
if state ~= 'released' then redis.call('HSET', KEYS[1], 'frames', frames) end
local owed = {}
if state == 'completed' then
  owed = debts(r[4], now)
  for at = 11, #ARGV do owe(owed, now + ARGV[at]) end
end
if r[4] or #owed > 0 then store(KEYS[1], 'owed', table.concat(owed, ' ')) end
redis.call('PEXPIRE', KEYS[1], ARGV[4])

-- Those who follow find the end in the log, whoever claims the record next.
-- Encoded frames begin with their version, which is no letter.
if r[6] or redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('DEL', KEYS[2])
  redis.call('RPUSH', KEYS[2], 'E ' .. state .. ' ' .. string.format('%.0f', now) .. ' ' .. ARGV[5] .. ' ' .. ARGV[9] .. ' ' .. frames)
  redis.call('PEXPIRE', KEYS[2], ARGV[7])
  redis.call('PUBLISH', KEYS[2], 'end')
end
return {'ok'}
