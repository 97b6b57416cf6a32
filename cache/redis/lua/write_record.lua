-- Gives the answer of a record, beside what write_records.lua shows of it.
local _, now = clock()
local w = load(RECORD)
if free(w, now) then return {'none'} end
meet(RECORD, w, now)
return {'ok', now, show(RECORD), w.state == 'completed' and redis.call('GET', ANSWER) or ''}
