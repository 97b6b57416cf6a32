-- Gives blocks of the log of requests, the latest first, and only those that a
-- time range may be in; of the others no more than their ids.
-- KEYS: the log. ARGV: the latest id that may come, the earliest, how many are
-- looked at, the range: from and to, in microseconds
local all = {'ok'}
-- A block's head has its times at fixed places, little-endian.
local function micros(b, at)
  local n = 0
  for i = at + 8, at + 1, -1 do n = n * 256 + string.byte(b, i) end
  return n
end
for i, entry in ipairs(redis.call('XREVRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])) do
  local b = entry[2][2]
  if #b < 28 or micros(b, 20) < tonumber(ARGV[4]) or micros(b, 12) >= tonumber(ARGV[5]) then b = '' end
  all[i + 1] = {entry[1], b}
end
return all
