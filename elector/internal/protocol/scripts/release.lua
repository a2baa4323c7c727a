-- release: delete only what is mine, close the token so that a late renewal
-- finds it closed, and report it, in one step. Token 0: a failed attempt, which
-- had no term and reports nothing.
-- KEYS lock fence new heir
-- ARGV incarnation seq lease_ms token wake_channel value heir keep_ms closed only_held
-- -> {status, fence}
local mine = whose(got[1], ARGV[1], ARGV[2])
if mine == 'other' or mine == 'newer' then return {'taken', stored} end
-- By another process than the one that led: a node of other elections, named by mistake, keeps its counters.
if mine == 'nobody' and ARGV[10] == '1' then return {'gone', stored} end
if mine ~= 'nobody' then redis.call('DEL', KEYS[1]) end
if ARGV[4] == '0' then return {mine == 'nobody' and 'gone' or 'released', stored} end
if not got[2] then redis.call('SET', KEYS[3], ARGV[6], 'PX', ARGV[3]) end
-- Above all that a late renewal may have been shown. Sent twice it closes no more.
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
