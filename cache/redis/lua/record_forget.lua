-- Forgets a settled completion, and tells the audit.
-- KEYS: the record, its shard's audit. ARGV: its key, what the audit says of it
local r = redis.call('HMGET', KEYS[1], 'state', 'fence', 'about')
if r[1] ~= 'completed' and r[1] ~= 'failed' or r[3] then return {'none'} end -- what has about is a write
local _, now = clock()
redis.call('DEL', KEYS[1])
redis.call('XADD', KEYS[2], '*', 'id', ARGV[1], 'about', '{}', 'step',
  string.format('%.0f', now) .. ' forgotten ' .. r[2] .. ' 0 ' .. ARGV[2])
return {'ok'}
