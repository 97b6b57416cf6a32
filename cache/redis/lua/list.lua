-- Gives the places of a level's buckets in a range. Those that went go.
-- KEYS: the list. ARGV: from, to, for how many seconds buckets are kept (empty:
-- for good)
if ARGV[3] ~= '' then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', redis.call('TIME')[1] - ARGV[3])
end
return {'ok', redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'BYSCORE')}
