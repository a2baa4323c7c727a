-- release: delete only my own lock, raise the counter so that a late renewal finds the
-- term closed, and publish the end of the term, in one step. Token 0: a failed attempt, which
-- had no term and publishes nothing.
-- KEYS lock fence new heir
-- ARGV incarnation seq lease_ms token events_channel value heir keep_ms closed only_held event
-- -> {status, fence}
local mine = whose(got[1], ARGV[1], ARGV[2])
local held = mine == 'same' or mine == 'older'
if held then redis.call('DEL', KEYS[1]) end
local status = held and 'released' or mine == 'nobody' and 'gone' or 'taken'
-- Only held: sent by another process than the one that led. If the node was listed by mistake, it
-- keeps the counters of its own elections.
if ARGV[4] == '0' or ARGV[10] == '1' and not held then return {status, stored} end
if status ~= 'taken' then
  if not got[2] then redis.call('SET', KEYS[3], ARGV[6], 'PX', ARGV[3]) end
  -- Higher than any counter that a late renewal may have been shown. A repeated release changes nothing.
  if fence < tonumber(ARGV[9]) then
    stored = ARGV[9]
    redis.call('SET', KEYS[2], stored)
  end
end
local first = got[4] or ''
if held and ARGV[7] ~= '' then
  first = RESERVED .. ARGV[7]
  redis.call('SET', KEYS[4], first, 'PX', ARGV[8])
elseif held and reservedFor(first) then
  first = ''
  redis.call('DEL', KEYS[4])
end
redis.pcall('PUBLISH', ARGV[5], RELEASED .. ' ' .. ARGV[4] .. ' ' .. first .. ' ' .. ARGV[11])
return {status, stored}
