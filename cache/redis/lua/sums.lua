-- Gives of each bucket how many series it has, and the sums of some.
-- KEYS: buckets. ARGV: for each the number of series, and those
local all, at = {}, 1
for k = 1, #KEYS do
  local sums = {redis.call('HLEN', KEYS[k])}
  for s = at + 1, at + ARGV[at] do
    sums[#sums + 1] = redis.call('HGET', KEYS[k], ARGV[s])
  end
  all[k], at = sums, at + ARGV[at] + 1
end
return all
