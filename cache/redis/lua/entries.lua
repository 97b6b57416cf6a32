-- Gives entries of sorted sets, the highest first.
-- KEYS: one for each shard. ARGV: for each the highest score, how many of the
-- entries from there are left out, how many are given
local all = {}
for k = 1, #KEYS do
  all[k] = redis.call('ZRANGE', KEYS[k], ARGV[3 * k - 2], '-inf', 'BYSCORE', 'REV', 'LIMIT', ARGV[3 * k - 1], ARGV[3 * k], 'WITHSCORES')
end
return all
