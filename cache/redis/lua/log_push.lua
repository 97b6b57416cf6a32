-- Adds a block to the log of requests, once however often it is sent, and drops
-- those that are too old or too much: a few at a time, so that none of these
-- steps is long.
-- KEYS: the log, how large it is, the number of the node's last block. ARGV:
-- number, how long it is remembered, block, for how long one is kept, bytes that
-- the log may have
local last = redis.call('GET', KEYS[3])
if last and tonumber(last) >= tonumber(ARGV[1]) then return {'ok'} end
redis.call('XADD', KEYS[1], '*', 'b', ARGV[3])
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
local _, now = clock()
local size = redis.call('INCRBY', KEYS[2], #ARGV[3])
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 4)) do
  local ms = tonumber(string.match(entry[1], '^%d+'))
  if size <= tonumber(ARGV[5]) and now - ms <= tonumber(ARGV[4]) then break end
  redis.call('XDEL', KEYS[1], entry[1])
  size = redis.call('DECRBY', KEYS[2], #entry[2][2])
end
return {'ok'}
