-- Shows records. Those that are gone leave the indexes.
-- KEYS: many records. ARGV: 1: with the trail
local _, now = clock()
local all = {now}
for k = 9, #KEYS do
  local record, w = KEYS[k], load(KEYS[k])
  if free(w, now) then
    if not w.state then redis.call('ZREM', ALL, id(record)) end
    all[#all + 1] = {}
  else
    meet(record, w, now)
    local r = redis.call('HMGET', record, 'state', 'fence', 'origin', 'about', 'claimed', 'sent', 'settled',
      'expires', 'forgotten', 'status', 'size', 'sum', ARGV[1] == '1' and 'trail' or 'none')
    for n = 1, 13 do r[n] = r[n] or '' end
    all[#all + 1] = r
  end
end
return all
