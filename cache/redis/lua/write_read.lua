-- As read.lua, of a write.
-- ARGV: fence, index of the first frame, how many at most, the key as the
-- leading node is told it
local w = load(RECORD)
local _, now = clock()
local current = w.fence == ARGV[1]
if current then
  meet(RECORD, w, now)
  if flying(w) then want(w, ARGV[4]) end
  if flying(w) or w.state == 'unknown' and w.silent then
    local from = tonumber(ARGV[2])
    local frames = redis.call('LRANGE', LOG, from, from + ARGV[3] - 1)
    if #frames == 0 and now >= tonumber(w.lease) then return {'lapsed'} end
    return {'live', frames, tonumber(w.lease) - now}
  end
end

local function result(state, settled, frames, ended)
  if not current then return {'result', state, settled, '0', frames, ended} end
  local r = redis.call('HMGET', RECORD, 'status', 'size', 'sum')
  return {'result', state, settled, '0', frames, ended, r[1] or '', r[2] or '', r[3] or ''}
end

local over = current and (w.state == 'completed' or w.state == 'unknown')
local answer = over and redis.call('GET', ANSWER)
if answer then return result(w.state, w.settled, answer, w.ended or '0') end
local state, settled, ended, frames = string.match(redis.call('LINDEX', LOG, -1) or '', '^E (%a+) (%d+) %d (%d+)(.*)$')
if state then return result(state, settled, string.sub(frames, 2), ended) end
if current and (w.state == 'released' or w.state == 'unknown') then return result(w.state, w.settled, '', w.ended or '0') end
return {'fenced'}
