-- As renew.lua, of a write.
-- ARGV: fence, lease, how long a claim is remembered after its lease, for how
-- much longer it stays to be swept
local w = load(RECORD)
if not flying(w) or w.fence ~= ARGV[1] then return {'fenced'} end
local _, now = clock()
redis.call('HSET', RECORD, 'lease', now + ARGV[2])
if w.state == 'claimed' and not w.doubt then redis.call('PEXPIRE', RECORD, ARGV[2] + ARGV[3] + ARGV[4]) end
redis.call('ZADD', INFLIGHT, now + ARGV[2], id(RECORD))
if w.wanted then redis.call('PEXPIRE', LOG, ARGV[2] + ARGV[3]) end
return {'ok', w.wanted and '1' or '0'}
