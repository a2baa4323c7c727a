-- beat: a member reports that it is alive, and what it owns. The answer has the plan if the member has
-- another one, and for the assigner the members that are alive; those whose time has passed are removed
-- ten minutes later: until then operators see that they are missing.
-- Members with other settings (the number of shards, the lease) are refused: they would own other things
-- under the same names.
-- KEYS settings members plan
-- ARGV settings ('' to query them only) incarnation record ttl_ms keep_ms channel version of the plan that the member has, 1 for the assigner
-- -> {'ok', plan or '', the plan's version, incarnation, record, incarnation, record ...}, {'differs', settings} or {'none'}
local settings = redis.call('GET', KEYS[1])
if ARGV[1] == '' then
  if settings then return {'differs', settings} end
  return {'none'}
end
if settings and settings ~= ARGV[1] then return {'differs', settings} end
local now = redis.call('TIME')
local ms = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
local old = redis.call('HGET', KEYS[2], ARGV[2])
local ends, record = string.match(old or '', '^(%d+) (.*)$')
-- A full memory refuses new values, but not to a script that has written: it must not cost the settings
-- of members that run, or a member with others would join.
if settings then redis.call('PEXPIRE', KEYS[1], ARGV[5]) else redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[5]) end
redis.call('HSET', KEYS[2], ARGV[2], string.format('%.0f', ms + ARGV[4]) .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('PEXPIRE', KEYS[3], ARGV[5])
if record ~= ARGV[3] or tonumber(ends) < ms then redis.pcall('PUBLISH', ARGV[6], 'members') end
local plan = redis.call('GET', KEYS[3]) or ''
local version = string.match(plan, '^%S*')
if version == ARGV[7] then plan = '' end
local answer = {'ok', plan, version}
if ARGV[8] ~= '1' then return answer end
local all = redis.call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
  local ends, record = string.match(all[i + 1], '^(%d+) (.*)$')
  if ends and tonumber(ends) >= ms then
    -- No beat can have set such a time: this node's clock was set back. From now on it is as much as after
    -- a beat, or a dead member would be given shards until then.
    if tonumber(ends) > ms + ARGV[4] then redis.call('HSET', KEYS[2], all[i], string.format('%.0f', ms + ARGV[4]) .. ' ' .. record) end
    answer[#answer + 1] = all[i]
    answer[#answer + 1] = record
  elseif not ends or tonumber(ends) < ms - 600000 then
    redis.call('HDEL', KEYS[2], all[i])
  end
end
return answer
