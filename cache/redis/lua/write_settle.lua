-- Ends a write, or makes it unknown.
-- ARGV: fence, nonce, state, how long the answer is kept, how long the key is
-- remembered, status, size, sum, whether there are frames, frames, how long the
-- end of a log is kept, what the ledger books (empty: nothing), for how long
-- the steps of a released record are remembered
local nonce, state, frames = ARGV[2], ARGV[3], ARGV[10]
local w = load(RECORD)
if nonce ~= '' then -- sent again?
  if w.settler == nonce and w.fence == ARGV[1] then return heard() end
  local _, _, _, of = recall(w.did, nonce, 'settle')
  if of == ARGV[1] then return heard() end
end
local may = w.state == 'dispatched'
  or w.state == 'unknown' and state ~= 'unknown'
  or w.state == 'claimed' and state == 'released'
if not may or w.fence ~= ARGV[1] then return {'fenced'} end

local _, now = clock()
local was = w.state
if was ~= 'unknown' and ARGV[12] ~= '' then redis.call('RPUSH', TAIL, ARGV[12]) end
redis.call('ZREM', INFLIGHT, id(RECORD))
w.trail = step(w.trail, line(now, state, w.fence, state == 'released' and 0 or ARGV[6], '-'))
if w.settler then redis.call('HSET', RECORD, 'did', remember(w.did, w.settler, 'settle', 0, '', 0, w.fence)) end
redis.call('HSET', RECORD, 'settler', nonce, 'settled', now, 'ended', 0, 'lapses', '', 'trail', w.trail)
redis.call('HDEL', RECORD, 'silent')
if was == 'unknown' then
  settled(RECORD, w)
  redis.call('DEL', ANSWER)
end
-- What came to nothing leaves what was in doubt before it.
local ends = state == 'released' and w.doubt and 'unknown' or state
redis.call('HSET', RECORD, 'state', ends)
if ends == 'completed' then
  complete(now, 4)
elseif ends == 'released' then
  release(ARGV[13])
else
  if state == 'unknown' then redis.call('HSET', RECORD, 'status', ARGV[6], 'size', ARGV[7], 'sum', ARGV[8]) end
  if ARGV[9] == '1' then redis.call('SET', ANSWER, frames, 'PX', ARGV[11]) end
  doubted(RECORD, w)
end

-- As settle.lua.
if w.wanted or redis.call('EXISTS', LOG) == 1 then
  redis.call('DEL', LOG)
  redis.call('RPUSH', LOG, 'E ' .. ends .. ' ' .. whole(now) .. ' 0 0 ' .. frames)
  redis.call('PEXPIRE', LOG, ARGV[11])
  redis.call('PUBLISH', LOG, 'end')
end
return {'ok'}
