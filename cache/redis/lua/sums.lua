-- Gives of each bucket how many series it has, and the sums of some.
-- KEYS: buckets. ARGV: for each the number of series, and those
local all, at = {}, 1
for k = 1, #KEYS do
  local sums, last = {redis.call('HLEN', KEYS[k])}, at + ARGV[at]
  for from = at + 1, last, 1000 do -- a call takes some thousands
    for _, sum in ipairs(redis.call('HMGET', KEYS[k], unpack(ARGV, from, math.min(from + 999, last)))) do
      sums[#sums + 1] = sum
    end
  end
  all[k], at = sums, last + 1
end
return all
