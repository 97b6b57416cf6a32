-- Ends a claim that nobody settled, renewed or took over, and books it, once.
-- KEYS: the record, its shard's claims in flight, its shard's tail. ARGV: the
-- claim as it is called there, its fence
local due = redis.call('ZSCORE', KEYS[2], ARGV[1])
local _, now = clock()
if not due or tonumber(due) > now then return {'ok'} end
local r = redis.call('HMGET', KEYS[1], 'state', 'fence', 'lapses')
if r[1] == 'dispatched' and r[2] == ARGV[2] then
  if r[3] and r[3] ~= '' then redis.call('RPUSH', KEYS[3], r[3]) end
  redis.call('DEL', KEYS[1])
end
redis.call('ZREM', KEYS[2], ARGV[1])
return {'ok'}
