-- release: delete only my own lock, raise the counter so that a late renewal finds the
-- term closed, and publish the release, in one step. Token 0: a failed attempt, which
-- had no term and publishes nothing.
-- KEYS lock fence new heir
-- ARGV incarnation seq lease_ms token wake_channel value heir keep_ms closed only_held
-- -> {status, fence}
local mine = whose(got[1], ARGV[1], ARGV[2])
if mine == 'other' or mine == 'newer' then return {'taken', stored} end
-- Sent by another process than the one that led: if the node was listed by mistake, it keeps the
-- counters of its own elections.
if mine == 'nobody' and ARGV[10] == '1' then return {'gone', stored} end
if mine ~= 'nobody' then redis.call('DEL', KEYS[1]) end
if ARGV[4] == '0' then return {mine == 'nobody' and 'gone' or 'released', stored} end
if not got[2] then redis.call('SET', KEYS[3], ARGV[6], 'PX', ARGV[3]) end
-- Higher than any counter that a late renewal may have been shown. A repeated release changes nothing.
if fence < tonumber(ARGV[9]) then
  stored = ARGV[9]
  redis.call('SET', KEYS[2], stored)
end
if mine == 'nobody' then return {'gone', stored} end
local first = got[4] or ''
if ARGV[7] ~= '' then
  first = RESERVED .. ARGV[7]
  redis.call('SET', KEYS[4], first, 'PX', ARGV[8])
elseif reservedFor(first) then
  first = ''
  redis.call('DEL', KEYS[4])
end
redis.pcall('PUBLISH', ARGV[5], RELEASED .. ARGV[4] .. ' ' .. first)
return {'released', stored}
