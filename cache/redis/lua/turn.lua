-- Says whether a node is the one that folds, and how far each shard is folded.
-- That there is one spares the others the work; what keeps it right is in
-- fold.lua.
-- KEYS: who folds, how far. ARGV: node, for how long, 1: whoever folds
if ARGV[3] ~= '1' then
  local who = redis.call('GET', KEYS[1])
  if who and who ~= ARGV[1] then return {'other'} end
  if not who or redis.call('PTTL', KEYS[1]) < ARGV[2] / 2 then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  end
end
return {'ok', redis.call('HGETALL', KEYS[2])}
