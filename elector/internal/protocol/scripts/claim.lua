-- claim: take the lock if it can be taken, and grant a token; otherwise report
-- everything that a follower needs to know to wait. One round trip.
-- KEYS lock fence new pause heir id
-- ARGV value, to which the token is added, incarnation seq lease_ms hint marker ask_channel identity echo_channel
-- -> {status, token or fence, holder, ms left, subscribers, note, identity}
local id = identity(6, ARGV[8])
local mine = whose(got[1], ARGV[2], ARGV[3])
if mine == 'same' then return {'same', stored, got[1], 0, 0, '', id} end

-- A key that lives for much longer than a lease was not written by us, or this node's
-- clock was set: it must not block the election for that long.
local lease = tonumber(ARGV[4])
local function stale(i)
  local left = redis.call('PTTL', KEYS[i])
  return left < 0 or left > 2 * lease
end

-- No counter: this node is new, or it lost its data. It must not vote for one lease,
-- because it can't know whether there is a leader (Redlock's delayed restart).
if not got[2] then
  redis.call('SET', KEYS[2], '0')
  if not got[3] then
    got[3] = ARGV[1]
    redis.call('SET', KEYS[3], got[3], 'PX', ARGV[4])
  end
end
if got[3] and stale(3) then redis.call('PEXPIRE', KEYS[3], ARGV[4]) end

-- A reservation for another candidate lapses after a bounded time.
local heir = reservedFor(got[5])
local kept = heir and heir ~= ARGV[2]
if kept and stale(5) then
  redis.call('DEL', KEYS[5])
  kept = false
end

local status, note, left = 'won', '', 0
if mine == 'other' or mine == 'newer' then
  status, left = 'held', redis.call('PTTL', KEYS[1])
  -- A lock never lives for longer than the lease in its value, unless the clock of
  -- this node was set back. From now on the lock lives for that lease at most.
  local own = tonumber(string.match(got[1], '^%S*/%w+/%d+ n=%d+ lease=(%d+)') or '')
  if own and own > 0 and (left < 0 or left > own) then
    redis.call('PEXPIRE', KEYS[1], own)
    left = own
  end
elseif got[4] and got[4] ~= '' then -- an empty note is no pause: status does not show one either
  status, note, left = 'paused', got[4], redis.call('PTTL', KEYS[4])
elseif got[3] and got[3] ~= ARGV[6] then
  status, note, left = 'new', got[3], redis.call('PTTL', KEYS[3])
elseif kept then
  status, left = 'kept', redis.call('PTTL', KEYS[5])
end

if status == 'won' then
  local token, p, now = ARGV[5], tonumber(ARGV[5]), redis.call('TIME')
  local clock = now[1] .. string.sub('00000' .. now[2], -6, -4) -- in ms
  local ms = tonumber(clock)
  if p > ms + 3600000 then p = 0 end
  -- A single node also uses its own clock: a claim that was under way for long, as to a
  -- hung master that was replaced meanwhile, has an old hint. Several nodes don't, since
  -- they would grant different tokens.
  if p < ms and string.find(ARGV[1], ' n=1 ', 1, true) then token, p = clock, ms end
  if p <= fence then
    p = fence + 1
    token = string.format('%.0f', p)
  end
  if p >= 9007199254740991 then
    return redis.error_reply('MANDATE key ' .. KEYS[2] .. ' has reached 2^53-1')
  end
  redis.call('SET', KEYS[1], ARGV[1] .. ' token=' .. token, 'PX', ARGV[4])
  redis.call('SET', KEYS[2], token)
  if got[3] then redis.call('DEL', KEYS[3]) end
  if got[5] == ARGV[2] or heir == ARGV[2] then redis.call('DEL', KEYS[5]) end
  return {'won', token, '', 0, 0, '', id}
end

-- This process tests its subscription, which costs it no request of its own.
if ARGV[9] ~= '' then redis.pcall('PUBLISH', ARGV[9], '') end
local subscribers = -1
local subs = redis.pcall('PUBSUB', 'NUMSUB', ARGV[7])
if not subs.err then subscribers = tonumber(subs[2]) end
-- One follower is stored as the first to claim, so that a release causes no race; the note
-- tells it so. It is the one with the smallest incarnation, so that all nodes come to store the
-- same. This is only a hint: it lapses, and the lock decides.
local named = not heir and (not got[5] or ARGV[2] <= got[5])
if status == 'held' and mine == 'other' and named then
  redis.pcall('SET', KEYS[5], ARGV[2], 'PX', ARGV[4] * 2)
  note = 'next'
elseif status == 'held' and heir == ARGV[2] then
  note = 'next'
end
return {status, stored, got[1] or '', left, subscribers, note, id}
