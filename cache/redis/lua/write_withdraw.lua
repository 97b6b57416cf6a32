-- Takes a dispatch back, of which nothing was sent or executed.
-- ARGV: fence, nonce, how long a claim is remembered after its lease, for how
-- much longer it stays to be swept
local w = load(RECORD)
local _, _, _, of = recall(w.did, ARGV[2], 'withdraw')
if of == ARGV[1] then return {'ok'} end
local _, now = clock()
if w.state ~= 'dispatched' or w.fence ~= ARGV[1] or now >= tonumber(w.lease) then return {'fenced'} end
local did = remember(w.did, w.sender, 'dispatch', 0, '', 0, w.fence)
redis.call('HSET', RECORD, 'state', 'claimed', 'did', remember(did, ARGV[2], 'withdraw', 0, '', 0, w.fence),
  'trail', step(w.trail, line(now, 'withdrawn', w.fence, 0, '-')))
redis.call('HDEL', RECORD, 'sender')
if not w.doubt then
  redis.call('HDEL', RECORD, 'sent')
  redis.call('PEXPIRE', RECORD, w.lease - now + ARGV[3] + ARGV[4])
end
return {'ok'}
