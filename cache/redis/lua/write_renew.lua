-- As renew.lua, of a write.
-- ARGV: fence, lease, how long a claim is remembered after its lease, for how
-- much longer it stays to be swept, for how long its readers may be silent when
-- they are asked
local w = load(RECORD)
if not flying(w) or w.fence ~= ARGV[1] then return {'fenced'} end
local _, now = clock()
redis.call('HSET', RECORD, 'lease', now + ARGV[2])
if w.state == 'claimed' and not w.doubt then redis.call('PEXPIRE', RECORD, ARGV[2] + ARGV[3] + ARGV[4]) end
redis.call('ZADD', INFLIGHT, now + ARGV[2], id(RECORD))
if not w.wanted then return {'ok', '0'} end
if w.wanted == '1' then
  redis.call('HSET', RECORD, 'wanted', whole(now))
elseif now - w.wanted >= tonumber(ARGV[5]) then
  redis.call('HDEL', RECORD, 'wanted')
  return {'ok', '0'}
end
redis.call('PUBLISH', LOG, 'read') -- whoever hears it does, and so marks it anew
redis.call('PEXPIRE', LOG, ARGV[2] + ARGV[3])
return {'ok', '1'}
