-- Gives how many outcomes are unknown of each tool.
-- KEYS: each shard's
local all = {}
for k = 1, #KEYS do all[k] = redis.call('HGETALL', KEYS[k]) end
return all
