-- What the scripts of writes begin with, after preamble.lua.
--
-- The record of a write is a hash:
--   state    claimed, dispatched, completed, unknown or released
--   fence, print, leader, lapsed, node, lease, wanted, settler, settled, ended,
--   lapses, did, told: as a completion's; settled also since when it is unknown
--   origin   the fence of the claim that the operation began with
--   claimed  when the latest claim was;  sent  when the first dispatch was that
--            is in flight, in doubt or was settled
--   sender   the nonce of the dispatch that is in flight
--   doubt    1: the outcome of an earlier claim is in doubt
--   silent   1: unknown, for its leader was not heard of any more
--   about    what the write is, as JSON;  tool  whose it is
--   status, size, sum: what is remembered of the answer
--   expires  when the answer goes;  forgotten  when the record does
--   trail    its steps, one a line: when, what, fence, status, the rest as JSON
-- The answer is a key of its own beside it, whose expiry is the retention; that
-- of the hash is how long the key is remembered. What an unknown outcome shows
-- to those who follow is there for a moment. What was dispatched and is not
-- settled, and what is unknown, never expires.
--
-- Each shard has sorted sets of its records: those in flight by when their
-- leases end, all by when they were claimed, the unknown ones by when they were
-- dispatched, the completed ones by when they are forgotten; a hash that counts
-- the unknown ones of each tool; and the audit, a stream.
--
-- KEYS: these, then the record, its answer, a log; or many records.

local FENCES, INFLIGHT, TAIL, ALL = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local UNKNOWN, DOUBTS, ENDS, AUDIT = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local RECORD, ANSWER, LOG = KEYS[9], KEYS[10], KEYS[11]

local IN_DOUBT, GONE, AGED = 6, 7, 8

-- id is what the indexes call a record.
local function id(record) return string.match(record, '[^:]+$') end

local fields = {'state', 'fence', 'print', 'lease', 'leader', 'lapsed', 'did', 'told', 'settler', 'settled',
  'ended', 'wanted', 'node', 'lapses', 'origin', 'sent', 'sender', 'doubt', 'silent', 'tool', 'about', 'trail'}

-- load gives a record's fields, false for each that is not there.
local function load(record)
  local w = {}
  for n, value in ipairs(redis.call('HMGET', record, unpack(fields))) do w[fields[n]] = value end
  return w
end

local function whole(n) return string.format('%.0f', n) end

local function line(now, what, fence, status, rest)
  return whole(now) .. ' ' .. what .. ' ' .. fence .. ' ' .. status .. ' ' .. rest
end

-- step adds a line to a trail. Of 64 the first one and the latest stay.
local function step(trail, added)
  if not trail or trail == '' then return added end
  local _, ends = string.gsub(trail, '\n', '\n')
  if ends >= 63 then
    local first = string.find(trail, '\n', 1, true)
    trail = string.sub(trail, 1, first) .. string.sub(trail, string.find(trail, '\n', first + 1, true) + 1)
  end
  return trail .. '\n' .. added
end

local function audit(w, added)
  redis.call('XADD', AUDIT, '*', 'id', id(RECORD), 'about', w.about or '', 'step', added)
end

-- doubted counts an outcome that is unknown from now on, settled one that is so
-- no more.

local function doubted(record, w)
  redis.call('ZADD', UNKNOWN, w.sent, id(record))
  redis.call('HINCRBY', DOUBTS, w.tool, 1)
  redis.call('PERSIST', record)
end

local function settled(record, w)
  redis.call('ZREM', UNKNOWN, id(record))
  if redis.call('HINCRBY', DOUBTS, w.tool, -1) <= 0 then redis.call('HDEL', DOUBTS, w.tool) end
end

local function flying(w) return w.state == 'dispatched' or w.state == 'claimed' end

-- free says that there is nothing that a record holds: nothing was sent, and who
-- claimed it may not any more.
local function free(w, now)
  return not w.state or w.state == 'released' or w.state == 'claimed' and not w.doubt and now >= tonumber(w.lease)
end

-- meet makes a record unknown that was dispatched, or claimed over an outcome
-- in doubt, and whose lease has lapsed. It says whether it did.
local function meet(record, w, now)
  if not flying(w) or now < tonumber(w.lease) then return false end
  if w.state == 'claimed' and not w.doubt then return false end
  if w.state == 'dispatched' then
    if w.lapses and w.lapses ~= '' then redis.call('RPUSH', TAIL, w.lapses) end
    redis.call('HDEL', record, 'status', 'size', 'sum') -- of an earlier attempt
  end
  w.state, w.silent, w.settled, w.lapses = 'unknown', '1', whole(now), ''
  w.trail = step(w.trail, line(now, 'lapsed', w.fence, 0, '-'))
  redis.call('HSET', record, 'state', w.state, 'silent', w.silent, 'settled', w.settled, 'lapses', '', 'trail', w.trail)
  redis.call('ZREM', INFLIGHT, id(record))
  doubted(record, w)
  if w.wanted then redis.call('PUBLISH', record .. ':' .. w.fence, 'over') end
  return true
end

-- complete keeps what a write came to, and the answer where there is one.
-- n: the place in ARGV of how long the answer is kept; after it come how long
-- the key is remembered, status, size, sum, whether there are frames, frames
local function complete(now, n)
  local keep, memory = tonumber(ARGV[n]), tonumber(ARGV[n + 1])
  redis.call('HSET', RECORD, 'status', ARGV[n + 2], 'size', ARGV[n + 3], 'sum', ARGV[n + 4], 'forgotten', now + memory)
  redis.call('HDEL', RECORD, 'doubt')
  if ARGV[n + 5] == '1' and keep > 0 then
    redis.call('SET', ANSWER, ARGV[n + 6], 'PX', keep)
    redis.call('HSET', RECORD, 'expires', now + keep)
  end
  redis.call('ZADD', ENDS, now + memory, id(RECORD))
  redis.call('PEXPIRE', RECORD, memory)
end

-- release lets the key go; the steps that ended it can be sent again for so long.
local function release(remembered)
  redis.call('ZREM', ALL, id(RECORD))
  redis.call('PEXPIRE', RECORD, remembered)
end

-- show gives what is shown of a record.
local function show(record)
  local r = redis.call('HMGET', record, 'state', 'fence', 'origin', 'about', 'claimed', 'sent', 'settled',
    'expires', 'forgotten', 'status', 'size', 'sum', 'trail')
  for n = 1, 13 do r[n] = r[n] or '' end
  return r
end

-- want marks that somebody reads the log of a claim in flight.
local function want(w, name)
  if w.wanted == '1' then return end
  redis.call('HSET', RECORD, 'wanted', 1)
  if not w.wanted and w.node then redis.call('PUBLISH', w.node, name .. ' ' .. w.fence) end
end

-- heard answers a durable step that is sent again. It writes, for waiting for the
-- replicas is promised for what the connection itself wrote, and the step may
-- have come by another.
local function heard()
  redis.call('HSET', RECORD, 'again', 1)
  return {'ok'}
end

