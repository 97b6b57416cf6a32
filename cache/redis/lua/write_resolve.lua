-- Ends an unknown outcome.
-- ARGV: nonce, fence (0: the latest), state, how long the answer is kept, how
-- long the key is remembered, status, size, sum, whether there are frames,
-- frames, what the trail says of it, for how long the steps of a released
-- record are remembered
local nonce, state = ARGV[1], ARGV[3]
local w = load(RECORD)
if recall(w.did, nonce, 'resolve') then return heard() end
local _, now = clock()
if free(w, now) then return {'none'} end
if ARGV[2] ~= '0' and ARGV[2] ~= w.fence then return {'fenced'} end
meet(RECORD, w, now)
if w.state ~= 'unknown' then return {'settled'} end
local added = line(now, 'resolved', w.fence, ARGV[6], ARGV[11])
settled(RECORD, w)
audit(w, added)
redis.call('DEL', ANSWER)
redis.call('HDEL', RECORD, 'doubt', 'silent')
redis.call('HSET', RECORD, 'state', state, 'settled', now, 'trail', step(w.trail, added),
  'did', remember(w.did, nonce, 'resolve', 0, '', 0, w.fence))
if state == 'released' then release(ARGV[12]) else complete(now, 4) end
return {'ok'}
