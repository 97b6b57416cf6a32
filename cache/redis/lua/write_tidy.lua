-- Does what is due with records: those whose lease lapsed become unknown, or are
-- forgotten if nothing was sent; those that are gone leave the indexes.
-- KEYS: many records. ARGV: how long a claim is remembered after its lease
local _, now = clock()
for k = 9, #KEYS do
  local record, name, w = KEYS[k], id(KEYS[k]), load(KEYS[k])
  if not w.state then
    redis.call('ZREM', INFLIGHT, name)
    redis.call('ZREM', ALL, name)
    redis.call('ZREM', ENDS, name)
  elseif meet(record, w, now) then
  elseif not flying(w) then
    redis.call('ZREM', INFLIGHT, name)
    local ends = w.state == 'completed' and redis.call('HGET', record, 'forgotten')
    if ends then redis.call('ZADD', ENDS, math.max(ends, now + 1), name) else redis.call('ZREM', ENDS, name) end
  elseif now < tonumber(w.lease) then
    redis.call('ZADD', INFLIGHT, w.lease, name)
  elseif now < w.lease + ARGV[1] then
    redis.call('ZADD', INFLIGHT, w.lease + ARGV[1], name)
  else
    redis.call('DEL', record)
    redis.call('ZREM', INFLIGHT, name)
    redis.call('ZREM', ALL, name)
  end
end
return {'ok'}
