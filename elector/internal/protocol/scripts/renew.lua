-- renew: prolong my lock and copy my token to this node, into its lock and its
-- counter; plant both again if the node lost them (a plant is no vote in its round).
-- KEYS lock fence new heir pause id
-- ARGV value incarnation seq lease_ms token counter heir keep_ms identity echo_channel
-- -> {status, fence, holder (of a renewed lock: the value that it keeps, when the new one was refused), note:
-- of a pause; of a plant: 'forgot' where it found no counter, 'emptied' where another candidate's claim
-- had found none before, identity}
local id = identity(6, ARGV[9])
local mine = whose(got[1], ARGV[2], ARGV[3])
-- The heir's reservation outlasts the lease: the heir goes first even if the leader dies.
local function keep()
  if ARGV[7] ~= '' then
    redis.call('SET', KEYS[4], RESERVED .. ARGV[7], 'PX', ARGV[4] + ARGV[8])
  elseif reservedFor(got[4]) then
    redis.call('DEL', KEYS[4])
  end
end
local token, counter = tonumber(ARGV[5]), tonumber(ARGV[6])
if mine == 'same' or mine == 'older' then
  -- The lease first: a full memory refuses new values, and must not cost the lease. (Redis lets
  -- a script that has written go on writing, so it takes the value and the counter, too.)
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  local set = got[1] ~= ARGV[1] and redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[4])
  if fence < token then
    stored = ARGV[5]
    redis.call('SET', KEYS[2], stored)
  end
  keep()
  local refused = set and set.err
  if ARGV[10] ~= '' then redis.pcall('PUBLISH', ARGV[10], '') end -- as in claim.lua
  return {'mine', stored, refused and got[1] or '', got[5] or '', id}
end
if mine ~= 'nobody' then return {'taken', stored, got[1], '', id} end
-- The lock is free. A counter above any that this term was shown means that other
-- terms have begun and ended since, or that this term's own release has closed it.
if fence > math.max(token, counter) then return {'gone', stored, '', '', id} end
if not got[2] then redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[4]) end
if fence < token then stored = ARGV[5] end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[4])
redis.call('SET', KEYS[2], stored)
keep()
return {'planted', stored, '', not got[2] and 'forgot' or got[3] and 'emptied' or '', id}
