-- Makes a lease last, a lapsed one too if nobody took over.
-- KEYS: the record, the log, its shard's claims in flight. ARGV: fence, lease,
-- how long a claim is remembered after its lease, for how much longer it stays
-- to be swept
local r = redis.call('HMGET', KEYS[1], 'state', 'fence', 'wanted')
if r[1] ~= 'dispatched' or r[2] ~= ARGV[1] then return {'fenced'} end
local _, now = clock()
redis.call('HSET', KEYS[1], 'lease', now + ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[2] + ARGV[3] + ARGV[4])
redis.call('ZADD', KEYS[3], now + ARGV[2] + ARGV[3], inflight(KEYS[1], ARGV[1]))
if r[3] then redis.call('PEXPIRE', KEYS[2], ARGV[2] + ARGV[3]) end
return {'ok', r[3] and '1' or '0'}
