-- Gives entries of the audit, the latest first.
-- KEYS: each shard's. ARGV: how many of each; for each the latest that may come
local all = {}
for k = 1, #KEYS do all[k] = redis.call('XREVRANGE', KEYS[k], ARGV[1 + k], '-', 'COUNT', ARGV[1]) end
return all
