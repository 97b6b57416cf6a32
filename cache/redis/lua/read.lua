-- Gives frames of a log, or the result that was written over it.
-- KEYS: the record, the log. ARGV: fence, index of the first frame, how many
-- at most, the key as the leading node is told it
local r = redis.call('HMGET', KEYS[1], 'state', 'fence', 'lease', 'wanted', 'node', 'settled', 'cut', 'ended')
local state, current = r[1], r[2] == ARGV[1]

if current and state == 'dispatched' then
  if r[4] ~= '1' then
    redis.call('HSET', KEYS[1], 'wanted', 1)
    if not r[4] and r[5] then redis.call('PUBLISH', r[5], ARGV[4] .. ' ' .. ARGV[1]) end
  end
  local from = tonumber(ARGV[2])
  local frames = redis.call('LRANGE', KEYS[2], from, from + ARGV[3] - 1)
  local _, now = clock()
  if #frames == 0 and now >= tonumber(r[3]) then return {'lapsed'} end
  return {'live', frames, tonumber(r[3]) - now}
end
if current and (state == 'completed' or state == 'failed') then
  return {'result', state, r[6], r[7], redis.call('HGET', KEYS[1], 'frames'), r[8]}
end
-- Released, or replaced by another claim: the log has its end, if it was
-- followed.
local state, settled, cut, ended, frames = string.match(redis.call('LINDEX', KEYS[2], -1) or '', '^E (%a+) (%d+) (%d) (%d+)(.*)$')
if state then return {'result', state, settled, cut, string.sub(frames, 2), ended} end
if current then return {'result', 'released', r[6], '0', '', r[8]} end
return {'fenced'}
