-- Gives the first elements of tails that are not folded yet. Those that are go.
-- KEYS: for each shard its tail and its head. ARGV: how many elements at most,
-- a new epoch, and for each shard how far it is folded: epoch and position, or
-- nothing
--
-- The head is the epoch of a tail and the position in it of its first element.
-- A tail that was lost begins a new epoch.
local shards = {}
for at = 1, #KEYS / 2 do
  local tail, head = KEYS[2 * at - 1], KEYS[2 * at]
  local length = redis.call('LLEN', tail)
  local epoch, first = string.match(redis.call('GET', head) or '', '^(%x+) (%d+)$')
  local of, folded = string.match(ARGV[2 + at], '^(%x+) (%d+)$')
  local gone = epoch and of == epoch and folded - first or 0
  if not epoch and length > 0 then
    epoch, first = ARGV[2], '0'
    redis.call('SET', head, epoch .. ' 0')
  elseif gone > 0 then
    first = folded
    redis.call('LTRIM', tail, gone, -1)
    redis.call('SET', head, epoch .. ' ' .. first)
  end
  shards[at] = {epoch or '', first or '0', redis.call('LRANGE', tail, 0, ARGV[1] - 1)}
end
return shards
