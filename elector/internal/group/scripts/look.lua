-- look: the members that live, as the assigner sees them, and the version of the plan.
-- Those whose time has passed are removed.
-- A time that no beat can have set is from before the clock of this node was set back: from
-- now on it is as much as after a beat, or a dead member would be given shards until then.
-- KEYS members plan
-- ARGV ttl_ms
-- -> {plan's version, incarnation, record, incarnation, record, ...}
local now = redis.call('TIME')
local ms = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
local all = redis.call('HGETALL', KEYS[1])
local answer = {string.match(redis.call('GET', KEYS[2]) or '', '^%S*')}
for i = 1, #all, 2 do
  local ends, record = string.match(all[i + 1], '^(%d+) (.*)$')
  if ends and tonumber(ends) >= ms then
    if tonumber(ends) > ms + ARGV[1] then
      redis.call('HSET', KEYS[1], all[i], string.format('%.0f', ms + ARGV[1]) .. ' ' .. record)
    end
    answer[#answer + 1] = all[i]
    answer[#answer + 1] = record
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
return answer
