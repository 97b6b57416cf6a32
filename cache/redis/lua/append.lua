-- Publishes frames, those that are not there yet.
-- KEYS: the record, the log. ARGV: fence, index of the first frame, how long
-- the log lasts without another, frames
local r = redis.call('HMGET', KEYS[1], 'state', 'fence')
if r[1] ~= 'dispatched' or r[2] ~= ARGV[1] then return {'fenced'} end
local there, from = redis.call('LLEN', KEYS[2]), tonumber(ARGV[2])
if from > there then return {'gap', there} end
local fresh = 4 + there - from
if fresh > #ARGV then return {'ok'} end
local sizes, bytes = {}, 0
for at = fresh, #ARGV do
  redis.call('RPUSH', KEYS[2], ARGV[at])
  sizes[#sizes + 1] = #ARGV[at]
  bytes = bytes + #ARGV[at]
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
-- A notice is the new length of the log; a small one brings the frames too,
-- after their sizes, so that no reader needs to ask.
local notice = tostring(from + #ARGV - 3)
if bytes <= 32768 then
  notice = notice .. ' ' .. table.concat(sizes, ',') .. ':' .. table.concat(ARGV, '', fresh)
end
redis.call('PUBLISH', KEYS[2], notice)
return {'ok'}
