-- Writes new sums into buckets, if nothing was folded since the old ones were
-- read: so no element of a tail counts twice, or goes uncounted.
-- KEYS: how far each shard is folded, the lists of buckets of each level, then
-- buckets. ARGV: the number of shards; for each its number, how far it was
-- folded and how far it is now; for each bucket its level, its place in the
-- list, when it goes (empty: never), the number of series, and those with
-- their sums
local at = 2
for _ = 1, ARGV[1] do
  if (redis.call('HGET', KEYS[1], ARGV[at]) or '') ~= ARGV[at + 1] then return {'other'} end
  at = at + 3
end
at = 2
for _ = 1, ARGV[1] do
  redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2])
  at = at + 3
end
for k = 5, #KEYS do
  local level, place, ends, series = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  redis.call('ZADD', KEYS[2 + level], place, place)
  local last = at + 3 + 2 * series
  for from = at + 4, last, 1000 do -- a call takes some thousands
    redis.call('HSET', KEYS[k], unpack(ARGV, from, math.min(from + 999, last)))
  end
  if ends ~= '' then redis.call('PEXPIREAT', KEYS[k], ends) end
  at = last + 1
end
return {'ok'}
