-- Finds out whether a claim whose answer was lost leads. If it does not, it
-- can't from now on: it may still be on its way.
-- KEYS: the record. ARGV: the claim's nonce, how long it is remembered where
-- there is no record
local r = redis.call('HMGET', KEYS[1], 'state', 'fence', 'leader', 'did')
if r[3] == ARGV[1] then
  if r[1] == 'dispatched' then return {'leads', r[2]} end
  return {'ok'}
end
if recall(r[4], ARGV[1], '%a+') then return {'ok'} end
redis.call('HSET', KEYS[1], 'did', remember(r[4], ARGV[1], 'void', 0, '', 0, r[2] or '0'))
if not r[1] then
  redis.call('HSET', KEYS[1], 'state', 'released', 'fence', '0')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {'ok'}
