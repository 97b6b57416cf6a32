-- Gives claims in flight that are forgotten by now.
-- KEYS: for each shard its claims in flight. ARGV: how many at most
local _, now = clock()
local all = {}
for k = 1, #KEYS do
  all[k] = redis.call('ZRANGE', KEYS[k], '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[1])
end
return all
