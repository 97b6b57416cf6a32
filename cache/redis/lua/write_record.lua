-- Gives the answer of a record, beside what write_records.lua shows of it.
local _, now = clock()
local w = load(RECORD)
if free(w, now) then return {'none'} end
meet(RECORD, w, now)
local r = redis.call('HMGET', RECORD, 'state', 'fence', 'origin', 'about', 'claimed', 'sent', 'settled',
  'expires', 'forgotten', 'status', 'size', 'sum', 'trail')
for n = 1, 13 do r[n] = r[n] or '' end
return {'ok', now, r, w.state == 'completed' and redis.call('GET', ANSWER) or ''}
