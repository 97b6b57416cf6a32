-- Notes what the ledger books if nobody settles the claim.
-- KEYS: the record, the log. ARGV: fence, what is booked
local r = redis.call('HMGET', KEYS[1], 'state', 'fence')
if r[1] ~= 'dispatched' and r[1] ~= 'claimed' or r[2] ~= ARGV[1] then return {'fenced'} end
redis.call('HSET', KEYS[1], 'lapses', ARGV[2])
return {'ok'}
