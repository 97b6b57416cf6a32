-- Takes a claim through the one-way door, if its lease holds.
-- ARGV: fence, nonce
local w = load(RECORD)
local _, now = clock()
if not flying(w) or w.fence ~= ARGV[1] or now >= tonumber(w.lease) then return {'fenced'} end
if w.state == 'dispatched' then -- sent again?
  if ARGV[2] ~= '' and w.sender == ARGV[2] then return heard() end
  return {'fenced'}
end
if recall(w.did, ARGV[2], 'dispatch') then return {'fenced'} end -- it was withdrawn
redis.call('HSET', RECORD, 'state', 'dispatched', 'sender', ARGV[2], 'sent', w.doubt and w.sent or now,
  'trail', step(w.trail, line(now, 'dispatched', w.fence, 0, '-')))
redis.call('PERSIST', RECORD)
return {'ok'}
