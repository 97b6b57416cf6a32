-- Gives all series of buckets, with their sums.
-- KEYS: buckets
local all = {}
for k = 1, #KEYS do all[k] = redis.call('HGETALL', KEYS[k]) end
return all
