-- Notes a debt on a record that is in flight or completed.
-- KEYS: the record. ARGV: fence, nonce, how long it counts
local r = redis.call('HMGET', KEYS[1], 'state', 'fence', 'owed', 'did')
if r[2] ~= ARGV[1] or r[1] ~= 'dispatched' and r[1] ~= 'completed' then return {'ok'} end
if recall(r[4], ARGV[2], 'owe') then return {'ok'} end
local _, now = clock()
local owed = debts(r[3], now)
owe(owed, now + ARGV[3])
redis.call('HSET', KEYS[1], 'owed', table.concat(owed, ' '))
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], 'did', remember(r[4], ARGV[2], 'owe', 0, '', 0, ARGV[1]))
end
return {'ok'}
