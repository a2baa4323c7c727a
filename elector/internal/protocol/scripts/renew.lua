-- renew: prolong my lock and copy my token to this node, into its lock and its
-- counter; plant both again if the node lost them (a plant is no vote in its round).
-- KEYS lock fence new heir pause id
-- ARGV value lease token shown successor keep identity
-- -> mine, planted, gone or taken; fence; holder (of a renewed lock: the value that it keeps, when the new one was
-- refused); note: of a pause; of a plant 'forgot' where the node has granted nothing since it lost its data; id
local stored, counter, mint = fence, tonumber(token), tonumber(token)
if fence ~= token then stored, counter = number(fence_key, fence) end
id = identify(id_key, id, identity)
local mine = lock == value and 'same' or whose(lock, attempt(value)) -- mostly the same: a comparison takes less than a pattern
local done
if mine == 'same' or mine == 'older' then
  -- The lease first: a full memory refuses new values, and must not cost the lease. (Redis lets
  -- a script that has written go on writing, so it takes the value and the counter, too.)
  redis.call('PEXPIRE', lock_key, lease)
  local set = lock ~= value and redis.pcall('SET', lock_key, value, 'PX', lease)
  if counter < mint then
    stored = token
    redis.call('SET', fence_key, stored)
  end
  done = {status = 'mine', fence = stored, holder = set and set.err and lock, note = pause, id = id}
elseif mine ~= 'nobody' then
  return answer{status = 'taken', fence = stored, holder = lock, id = id}
elseif counter > math.max(mint, tonumber(shown)) then
  -- The lock is free. A counter above any that this term was shown means that other
  -- terms have begun and ended since, or that this term's own release has closed it.
  return answer{status = 'gone', fence = stored, id = id}
else
  if not fence then redis.call('SET', new_key, value, 'PX', lease) end
  if counter < mint then stored = token end
  redis.call('SET', lock_key, value, 'PX', lease)
  redis.call('SET', fence_key, stored)
  done = {status = 'planted', fence = stored, note = (new or not fence) and 'forgot', id = id}
end
-- The heir's reservation outlasts the lease: the heir goes first even if the leader dies.
if successor ~= '' then
  redis.call('SET', heir_key, RESERVED .. successor, 'PX', lease + keep)
elseif reservedFor(heir) then
  redis.call('DEL', heir_key)
end
return answer(done)
