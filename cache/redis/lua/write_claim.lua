-- Says what a write is, and makes it the leader when nobody leads and nothing
-- is in doubt, or it may run all the same.
-- ARGV: nonce, fingerprint, lease, how long a claim is remembered after its
--       lease, node, the key as the node is told it, for how much longer it
--       stays to be swept, what is booked if nobody settles it, about, tool,
--       again (0: never), knowingly, within (0: however old), aged, what the
--       trail says of who claims knowingly
local nonce, print = ARGV[1], ARGV[2]
local again, knowingly, within, aged = tonumber(ARGV[11]), ARGV[12] == '1', tonumber(ARGV[13]), ARGV[14] == '1'
local us, now = clock()
local w = load(RECORD)

-- grant is the answer. Beside the role comes what is known of the outcome.
local function grant(role, share, over, fence, origin)
  local g = {role, fence or '0', share, over, now, origin or '0'}
  if role == REPLAY or role == GONE or role == IN_DOUBT then
    local r = redis.call('HMGET', RECORD, 'state', 'settled', 'status', 'size', 'sum')
    for n = 1, 5 do g[6 + n] = r[n] or '' end
    g[12] = role == REPLAY and redis.call('GET', ANSWER) or ''
  end
  return g
end

-- decide is cache.Decide of a write: role, share, whether it found out that a
-- lease lapsed, whether it runs an unknown outcome again.
local function decide()
  local s, over = w.state, flying(w) and now >= tonumber(w.lease)
  -- Of the fence 0 is what write_landed.lua leaves where there was nothing.
  if (not s or w.fence == '0') and aged then return AGED, '', 0, false end
  if free(w, now) then return LEAD, '', 0, false end
  if s == 'completed' and within > 0 and now - w.settled >= within then return LEAD, '', 0, false end
  if print ~= w.print then return MISMATCH, '', 0, false end
  if flying(w) and not over then return FOLLOW, 'key', 0, false end
  if s == 'completed' then
    if redis.call('EXISTS', ANSWER) == 1 then return REPLAY, 'key', 0, false end
    return GONE, 'key', 0, false
  end
  local lapsed = s == 'dispatched' and 1 or 0
  if knowingly or again > 0 and now - w.sent < again then return LEAD, '', lapsed, true end
  return IN_DOUBT, '', lapsed, false
end

local function note(steps, nonce, role, share, over, fence, origin)
  return remember(steps, nonce, 'claim', role, share, over, fence .. ' ' .. origin)
end

local function recallClaim(steps)
  return string.match(steps or '', nonce .. ' claim (%d) ([%a_]*) (%d) (%d+) (%d+);')
end

-- Sent again?
if nonce ~= '' then
  if recall(w.did, nonce, 'void') then return {0} end
  if nonce == w.leader then return grant(LEAD, '', tonumber(w.lapsed), w.fence, w.origin) end
  local role, share, over, fence, origin = recallClaim(w.did)
  if not role then role, share, over, fence, origin = recallClaim(w.told) end
  if role and (tonumber(role) ~= IN_DOUBT or fence == w.fence and w.state == 'unknown') then
    return grant(tonumber(role), share, tonumber(over), fence, origin)
  end
end

local role, share, over, anew = decide()

if role ~= FOLLOW then meet(RECORD, w, now) end
if role == IN_DOUBT and over == 1 then -- and no other is told that it did
  redis.call('HSET', RECORD, 'did', note(w.did, nonce, role, share, over, w.fence, w.origin))
elseif role == FOLLOW then -- which another time might lead
  redis.call('HSET', RECORD, 'told', note(w.told, nonce, role, share, 0, w.fence, w.origin))
  want(w, ARGV[6])
end
if role ~= LEAD then return grant(role, share, over, w.fence, w.origin) end

-- As claim.lua; and all have the bit 2^52, which says that they are a write's.
us = us + 4503599627370496
local last = redis.call('GET', FENCES)
if last and tonumber(last) >= us then
  redis.call('INCR', FENCES)
else
  redis.call('SET', FENCES, whole(us))
end
local fence = redis.call('GET', FENCES)

local did, told = w.did, w.told
if w.fence then
  did = note(did, w.leader, LEAD, '', w.lapsed or 0, w.fence, w.origin or '0')
  did = remember(did, w.settler, 'settle', 0, '', 0, w.fence)
end
local lease = now + ARGV[3]
local origin = fence
if anew then
  settled(RECORD, w)
  origin = w.origin
  local added = knowingly and line(now, 'rerun', fence, 0, ARGV[15]) or line(now, 'again', fence, 0, '-')
  w.about, w.trail = ARGV[9], step(w.trail, added)
  audit(w, added)
  redis.call('DEL', ANSWER)
  redis.call('HDEL', RECORD, 'settler', 'settled', 'ended', 'sender', 'silent', 'wanted')
  redis.call('HSET', RECORD, 'doubt', 1)
else
  if flying(w) and w.wanted then redis.call('PUBLISH', RECORD .. ':' .. w.fence, 'over') end
  redis.call('DEL', RECORD, ANSWER)
  redis.call('ZREM', ENDS, id(RECORD))
  w.trail = line(now, 'claimed', fence, 0, '-')
end
redis.call('HSET', RECORD, 'state', 'claimed', 'fence', fence, 'origin', origin, 'print', print, 'leader', nonce,
  'lapsed', over, 'lease', lease, 'claimed', now, 'node', ARGV[5], 'lapses', ARGV[8],
  'about', ARGV[9], 'tool', ARGV[10], 'trail', w.trail)
if did and did ~= '' then redis.call('HSET', RECORD, 'did', did) end
if told then redis.call('HSET', RECORD, 'told', told) end
if not anew then redis.call('PEXPIRE', RECORD, ARGV[3] + ARGV[4] + ARGV[7]) end
redis.call('ZADD', INFLIGHT, lease, id(RECORD))
redis.call('ZADD', ALL, now, id(RECORD))
return grant(LEAD, '', over, fence, origin)
