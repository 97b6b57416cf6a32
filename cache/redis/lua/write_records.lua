-- Shows records. Those that are gone leave the indexes.
-- KEYS: many records
local _, now = clock()
local all = {now}
for k = 9, #KEYS do
  local record, w = KEYS[k], load(KEYS[k])
  if free(w, now) then
    if not w.state then redis.call('ZREM', ALL, id(record)) end
    all[#all + 1] = {}
  else
    meet(record, w, now)
    all[#all + 1] = show(record)
  end
end
return all
