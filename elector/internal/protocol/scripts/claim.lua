-- claim: take the lock if it can be taken, and grant a token; otherwise report
-- everything that a follower needs to know to wait. One round trip.
-- KEYS lock fence new pause heir id
-- ARGV value incarnation seq lease hint clock marker identity ask echo
-- With the hint 0 it grants nothing, and reports that it could.
-- -> status; fence: the token or the counter; holder; left: in ms; subscribers; note; id
local stored, counter = number(fence_key, fence)
id = identify(id_key, id, identity)
local mine = whose(lock, incarnation, seq)
if mine == 'same' then return answer{status = 'same', fence = stored, holder = lock, id = id} end

-- A key that lives for much longer than a lease was not written by us, or this node's
-- clock was set: it must not block the election for that long.
local function stale(key)
  local left = redis.call('PTTL', key)
  return left < 0 or left > 2 * lease
end

-- No counter: this node is new, or it lost its data. It must not vote for one lease,
-- because it can't know whether there is a leader (Redlock's delayed restart).
if not fence then
  redis.call('SET', fence_key, '0')
  if not new then
    new = value
    redis.call('SET', new_key, new, 'PX', lease)
  end
end
if new and stale(new_key) then redis.call('PEXPIRE', new_key, lease) end

-- A reservation for another candidate lapses after a bounded time.
local reserved = reservedFor(heir)
local kept = reserved and reserved ~= incarnation
if kept and stale(heir_key) then
  redis.call('DEL', heir_key)
  kept = false
end

local status, note, left = 'won', '', 0
if mine == 'other' or mine == 'newer' then
  status, left = 'held', redis.call('PTTL', lock_key)
  -- A lock never lives for longer than the lease in its value, unless the clock of
  -- this node was set back. From now on the lock lives for that lease at most.
  local own = tonumber(string.match(lock, '^%S*/%w+/%d+ n=%d+ lease=(%d+)') or '')
  if own and own > 0 and (left < 0 or left > own) then
    redis.call('PEXPIRE', lock_key, own)
    left = own
  end
elseif pause and pause ~= '' then -- an empty note is no pause: status does not show one either
  status, note, left = 'paused', pause, redis.call('PTTL', pause_key)
elseif new and new ~= marker then
  status, note, left = 'new', new, redis.call('PTTL', new_key)
elseif kept then
  status, left = 'kept', redis.call('PTTL', heir_key)
end

if status == 'won' and hint == '0' then return answer{status = 'free', fence = stored, id = id} end
if status == 'won' then
  local token, p, c, now = hint, tonumber(hint), tonumber(clock), redis.call('TIME')
  local own = now[1] .. string.sub('00000' .. now[2], -6, -4) -- in ms
  local ms = tonumber(own)
  -- A candidate whose clock is wrong by years must not use up the tokens. What it has seen is never clamped: a node whose
  -- own clock is behind would go back.
  local limit = ms + 3600000
  if c > limit then clock, c = string.format('%.0f', limit), limit end
  -- A single node also uses its own clock: a claim that was under way for long, as to a
  -- hung master that was replaced meanwhile, has an old one. Several nodes don't, since
  -- they would grant different tokens.
  if c < ms and string.find(value, ' n=1 ', 1, true) then clock, c = own, ms end
  if p < c then token, p = clock, c end
  if p <= counter then
    p = counter + 1
    token = string.format('%.0f', p)
  end
  if p >= 9007199254740991 then
    return redis.error_reply('MANDATE key ' .. fence_key .. ' has reached 2^53-1')
  end
  redis.call('SET', lock_key, value .. ' token=' .. token, 'PX', lease)
  redis.call('SET', fence_key, token)
  if new then redis.call('DEL', new_key) end
  if heir == incarnation or reserved == incarnation then redis.call('DEL', heir_key) end
  return answer{status = 'won', fence = token, id = id}
end

-- In vain, since the lock is there, or XX wants it to be: would this node let the claimant take it? A replica, a full disk
-- and a missing right would else show only once the lock is free.
local try = redis.pcall('SET', lock_key, lock or value, lock and 'NX' or 'XX', 'PX', lease)
local refused = type(try) == 'table' and try.err
if refused and string.find(refused, 'READONLY', 1, true) then error(try) end -- the connection leads to the wrong server

-- This process tests its subscription, which costs it no request of its own. If nobody receives the message here,
-- this process is subscribed to another server: then it is told that there are no subscribers.
local received = echo ~= '' and redis.pcall('PUBLISH', echo, '')
local subs = redis.pcall('PUBSUB', 'NUMSUB', ask)
-- One follower is stored as the first to claim, so that a release causes no race; the note
-- tells it so. It is the one with the smallest incarnation, so that all nodes come to store the
-- same. This is only a hint: it lapses, and the lock decides.
local first = not reserved and (not heir or incarnation <= heir)
if status == 'held' and mine == 'other' and first then
  redis.pcall('SET', heir_key, incarnation, 'PX', lease * 2)
  note = 'next'
elseif status == 'held' and reserved == incarnation then
  note = 'next'
end
return answer{status = status, fence = stored, holder = lock, left = left, subscribers = received == 0 and 0 or not subs.err and subs[2], note = note, id = id, refused = refused}
