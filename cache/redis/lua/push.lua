-- Adds to the tail of a shard what a node booked, once however often it is
-- sent: a node numbers its pushes, and sends none before the last was heard.
-- KEYS: the tail, the number of the node's last push. ARGV: number, how long
-- it is remembered, elements
local last = redis.call('GET', KEYS[2])
if last and tonumber(last) >= tonumber(ARGV[1]) then return {'ok'} end
for at = 3, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[at]) end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return {'ok'}
