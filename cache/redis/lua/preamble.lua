-- What every script begins with.
--
-- A record is a hash:
--   state    dispatched, completed, failed or released
--   fence    of the latest claim; print: its fingerprint; leader: its nonce
--   lapsed   1: that claim took over from a holder whose lease had run out
--   node     the gateway that leads, to tell it that its log is wanted
--   lease    when it ends
--   wanted   1: somebody on another node reads the log; a time: nobody has since
--            then, when its readers were asked; absent: nobody does
--   settler  the nonce of the settlement;  settled  when;  cut, frames: its result
--   ended    when its readers may first have had its end; 0: not before that
--   lapses   what the ledger books if nobody settles the claim
--   owed     when each debt ends, the earliest first
--   did      steps that had an effect, told: those that had none; see remember
-- Its expiry is the retention. Times are milliseconds of this server's clock.
--
-- A log is a list of encoded frames, and its channel has the log's name. Once
-- its claim is settled its last element is its end, see settle.lua.

local LEAD, FOLLOW, REPLAY, MISMATCH, TWIN = 1, 2, 3, 4, 5

-- Claims in flight are in a sorted set of their shard, under the name that
-- inflight gives, by when they are forgotten.

local function inflight(record, fence)
  return string.match(record, '[^:]+$') .. ' ' .. fence
end

-- clock gives microseconds and milliseconds. Both are exact in a double until
-- the year 2255.
local function clock()
  local t = redis.call('TIME')
  local us = t[1] * 1000000 + t[2]
  return us, math.floor(us / 1000)
end

-- A list of steps is text, the oldest first:
--   nonce kind role share lapsed fence;
-- where kind is claim, settle, owe or void: a claim that was given back.

local function recall(steps, nonce, kind)
  if not steps or nonce == '' then return nil end
  return string.match(steps, nonce .. ' ' .. kind .. ' (%d) ([%a_]*) (%d) (%d+);')
end

-- remember keeps the latest 16 KiB, some 240 steps.
local function remember(steps, nonce, kind, role, share, lapsed, fence)
  steps = steps or ''
  if not nonce or nonce == '' then return steps end
  steps = steps .. nonce .. ' ' .. kind .. ' ' .. role .. ' ' .. share .. ' ' .. lapsed .. ' ' .. fence .. ';'
  while #steps > 16384 do
    steps = string.sub(steps, string.find(steps, ';', 1, true) + 1)
  end
  return steps
end

-- debts gives those that still count, as they are kept.
local function debts(owed, now)
  local left = {}
  for ends in string.gmatch(owed or '', '%d+') do
    if tonumber(ends) > now then left[#left + 1] = ends end
  end
  return left
end

-- owe adds one that ends then, in its place.
local function owe(left, ends)
  local at = #left + 1
  while at > 1 and tonumber(left[at - 1]) > ends do at = at - 1 end
  table.insert(left, at, string.format('%.0f', ends))
end

-- store keeps a field, or drops it when it is empty.
local function store(key, field, value)
  if value ~= '' then
    redis.call('HSET', key, field, value)
  else
    redis.call('HDEL', key, field)
  end
end

