-- Notes where the holder's next attempt goes.
-- KEYS: the record, the log. ARGV: fence, target
local r = redis.call('HMGET', KEYS[1], 'state', 'fence')
if r[1] ~= 'dispatched' or r[2] ~= ARGV[1] then return {'fenced'} end
redis.call('HSET', KEYS[1], 'target', ARGV[2])
return {'ok'}
