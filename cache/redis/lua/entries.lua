-- Gives entries of sorted sets.
-- KEYS: one for each shard. ARGV: which way, up from the lowest score or down
-- from the highest; then for each shard the score to begin with, how many of the
-- entries from there are left out, how many are given
local all = {}
for k = 1, #KEYS do
  local from, skip, most = ARGV[3 * k - 1], ARGV[3 * k], ARGV[3 * k + 1]
  if ARGV[1] == 'up' then
    all[k] = redis.call('ZRANGE', KEYS[k], from, '+inf', 'BYSCORE', 'LIMIT', skip, most, 'WITHSCORES')
  else
    all[k] = redis.call('ZRANGE', KEYS[k], from, '-inf', 'BYSCORE', 'REV', 'LIMIT', skip, most, 'WITHSCORES')
  end
end
return all
