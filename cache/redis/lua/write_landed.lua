-- As landed.lua, of a write.
-- ARGV: the claim's nonce, how long it is remembered where there is no record
local w = load(RECORD)
if w.leader == ARGV[1] then
  if flying(w) then return {'leads', w.fence} end
  return {'ok'}
end
if string.find(w.did or '', ARGV[1] .. ' ', 1, true) then return {'ok'} end
redis.call('HSET', RECORD, 'did', remember(w.did, ARGV[1], 'void', 0, '', 0, w.fence or '0'))
if not w.state then
  redis.call('HSET', RECORD, 'state', 'released', 'fence', '0')
  redis.call('PEXPIRE', RECORD, ARGV[2])
end
return {'ok'}
