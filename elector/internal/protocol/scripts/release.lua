-- release: delete only my own lock, raise the counter so that a late renewal finds the
-- term closed, and publish and record the end of the term, in one step. Token 0: a failed attempt, which
-- had no term and publishes nothing.
-- KEYS lock fence new heir
-- ARGV value incarnation seq lease token successor keep closed only_held events event history
-- The history is an argument: the server would refuse the call to a user who may access all keys but that one.
-- -> released, gone or taken, fence
local stored, counter = number(fence_key, fence)
local mine = whose(lock, incarnation, seq)
local held = mine == 'same' or mine == 'older'
if held then redis.call('DEL', lock_key) end
local status = held and 'released' or mine == 'nobody' and 'gone' or 'taken'
-- Only held: sent by another process than the one that led. If the node was listed by mistake, it
-- keeps the counters of its own elections.
if token == '0' or only_held == '1' and not held then return answer{status = status, fence = stored} end
if status ~= 'taken' then
  if not fence then redis.call('SET', new_key, value, 'PX', lease) end
  -- Higher than any counter that a late renewal may have been shown. A repeated release changes nothing.
  if counter < tonumber(closed) then
    stored = closed
    redis.call('SET', fence_key, stored)
  end
end
local first = heir or ''
if held and successor ~= '' then
  first = RESERVED .. successor
  redis.call('SET', heir_key, first, 'PX', keep)
elseif held and reservedFor(first) then
  first = ''
  redis.call('DEL', heir_key)
end
redis.pcall('PUBLISH', events, RELEASED .. ' ' .. token .. ' ' .. first .. ' ' .. event)
record(history, event)
return answer{status = status, fence = stored}
