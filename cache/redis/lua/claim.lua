-- Says what a request is, and makes it the leader when nobody leads.
-- KEYS: the record, its shard's counter of fences, its shard's claims in flight,
--       its shard's tail
-- ARGV: nonce, fingerprint, explicit, mode, retry, lease, how long a claim is
--       remembered after its lease, node, the key as the node is told it, for
--       how much longer it stays to be swept, what is booked if nobody settles
--       it
local nonce, print = ARGV[1], ARGV[2]
local explicit, mode, retry = ARGV[3] == '1', tonumber(ARGV[4]), ARGV[5] == '1'
local DUPLICATES, ALWAYS = 2, 3
local us, now = clock()

local r = redis.call('HMGET', KEYS[1], 'state', 'fence', 'print', 'lease', 'leader', 'lapsed',
  'cut', 'owed', 'did', 'told', 'settler', 'wanted', 'node')
local state, fence, printed, lease, leader, lapsed = r[1] or 'absent', r[2], r[3], r[4], r[5], r[6]
local cut, did, told, settler, wanted, node = r[7] == '1', r[9], r[10], r[11], r[12], r[13]
local owed = debts(r[8], now)

-- grant is the answer. One that replays brings the result.
local function grant(role, share, over, of)
  local g = {role, of, share, over, now}
  if role == REPLAY then
    local s = redis.call('HMGET', KEYS[1], 'state', 'settled', 'cut', 'frames')
    g[6], g[7], g[8], g[9] = s[1], s[2], s[3], s[4]
  end
  return g
end

-- decide is cache.Decide: role, share, whether it takes a debt, whether it
-- takes over a lapsed lease.
local function decide()
  local other = explicit and print ~= printed
  if state == 'absent' or state == 'released' then return LEAD, '', false, 0 end
  if state == 'dispatched' and now >= tonumber(lease) and not other then return LEAD, '', false, 1 end
  if other then return MISMATCH, '', false, 0 end
  local role = state == 'dispatched' and FOLLOW or REPLAY
  if explicit then return role, 'key', false, 0 end
  if retry then return role, 'retry_marked', false, 0 end
  if #owed > 0 then return role, 'owed', true, 0 end
  if state == 'failed' then return REPLAY, 'twin', false, 0 end
  if state == 'dispatched' and mode >= DUPLICATES then return FOLLOW, 'twin', false, 0 end
  if state == 'dispatched' then return TWIN, '', false, 0 end
  if mode >= ALWAYS and not cut then return REPLAY, 'within_ttl', false, 0 end
  return LEAD, '', false, 0
end

-- Sent again?
if nonce ~= '' then
  if recall(did, nonce, 'void') then return {0} end
  if nonce == leader then return grant(LEAD, '', tonumber(lapsed), fence) end
  local role, share, over, of = recall(did, nonce, 'claim')
  if not role then role, share, over, of = recall(told, nonce, 'claim') end
  if role and (tonumber(role) ~= REPLAY or of == fence) then
    return grant(tonumber(role), share, tonumber(over), of)
  end
end

local role, share, takes, over = decide()

if role == LEAD then
  -- Fences are this server's microseconds, or the last one plus one: so they
  -- rise even over a server that lost its last writes, or all of them.
  local last = redis.call('GET', KEYS[2])
  if last and tonumber(last) >= us then
    redis.call('INCR', KEYS[2])
  else
    redis.call('SET', KEYS[2], string.format('%.0f', us))
  end
  local new = redis.call('GET', KEYS[2])
  if fence then
    did = remember(did, leader, 'claim', LEAD, '', lapsed or 0, fence)
    did = remember(did, settler, 'settle', 0, '', 0, fence)
    if over == 1 then
      local lines = redis.call('HGET', KEYS[1], 'lapses')
      if lines and lines ~= '' then redis.call('RPUSH', KEYS[4], lines) end
      redis.call('ZREM', KEYS[3], inflight(KEYS[1], fence))
    end
    redis.call('DEL', KEYS[1])
  end
  redis.call('HSET', KEYS[1], 'state', 'dispatched', 'fence', new, 'print', print, 'leader', nonce,
    'lapsed', over, 'lease', now + ARGV[6], 'node', ARGV[8], 'lapses', ARGV[11])
  if did and did ~= '' then redis.call('HSET', KEYS[1], 'did', did) end
  if told then redis.call('HSET', KEYS[1], 'told', told) end
  redis.call('PEXPIRE', KEYS[1], ARGV[6] + ARGV[7] + ARGV[10])
  redis.call('ZADD', KEYS[3], now + ARGV[6] + ARGV[7], inflight(KEYS[1], new))
  if over == 1 and wanted then redis.call('PUBLISH', KEYS[1] .. ':' .. fence, 'over') end
  return grant(LEAD, '', over, new)
end

if takes then
  table.remove(owed, 1)
  store(KEYS[1], 'owed', table.concat(owed, ' '))
  redis.call('HSET', KEYS[1], 'did', remember(did, nonce, 'claim', role, share, 0, fence))
elseif role == FOLLOW or role == TWIN then -- which another time might lead
  redis.call('HSET', KEYS[1], 'told', remember(told, nonce, 'claim', role, share, 0, fence))
end
if role == FOLLOW and wanted ~= '1' then -- it will read the log
  redis.call('HSET', KEYS[1], 'wanted', 1)
  if not wanted and node then redis.call('PUBLISH', node, ARGV[9] .. ' ' .. fence) end
end
return grant(role, share, 0, fence)
