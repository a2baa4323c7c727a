-- look: the members that live, as the assigner sees them, and the version of the plan.
-- Those whose time has passed are removed.
-- KEYS members plan
-- -> {plan's version, incarnation, record, incarnation, record, ...}
local now = redis.call('TIME')
local ms = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
local all = redis.call('HGETALL', KEYS[1])
local answer = {string.match(redis.call('GET', KEYS[2]) or '', '^%S*')}
for i = 1, #all, 2 do
  local ends, record = string.match(all[i + 1], '^(%d+) (.*)$')
  if ends and tonumber(ends) >= ms then
    answer[#answer + 1] = all[i]
    answer[#answer + 1] = record
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
return answer
