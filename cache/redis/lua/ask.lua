-- Has the readers of a log say so again, and tells whether there are any.
-- KEYS: the record, the log. ARGV: fence, for how long they may be silent
local r = redis.call('HMGET', KEYS[1], 'state', 'fence', 'wanted')
if r[1] ~= 'dispatched' and r[1] ~= 'claimed' or r[2] ~= ARGV[1] then return {'fenced'} end
local wanted, _, now = r[3], clock()
if not wanted then return {'ok', '0'} end
if wanted == '1' then
  redis.call('HSET', KEYS[1], 'wanted', string.format('%.0f', now))
elseif now - wanted >= tonumber(ARGV[2]) then
  redis.call('HDEL', KEYS[1], 'wanted')
  return {'ok', '0'}
end
redis.call('PUBLISH', KEYS[2], 'read') -- whoever hears it does, and so marks it anew
return {'ok', '1'}
