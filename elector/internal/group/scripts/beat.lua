-- beat: a member says that it lives, and what it owns; it is shown the plan if that is
-- another one than it has. Members of other settings (the number of shards, the lease) are
-- refused: they would own other things under the same names.
-- KEYS settings members plan fence cuts
-- ARGV settings ('' to query them only) incarnation record ttl_ms keep_ms channel version of the plan that the member has
-- -> {'ok', settings, plan or '', shard, token, ...: the cuts of a group that grows},
--    {'differs', settings}, {'none'} or {'election'}
local settings = redis.call('GET', KEYS[1])
-- An election of the group's name: its candidates and ours would confuse people and keys.
if not settings and redis.call('EXISTS', KEYS[4]) == 1 then return {'election'} end
if ARGV[1] == '' then
  if settings then return {'differs', settings} end
  return {'none'}
end
if not settings then
  settings = ARGV[1]
  redis.call('DEL', KEYS[5])
elseif settings ~= ARGV[1] then
  local readable, here = pcall(cjson.decode, settings)
  local there = cjson.decode(ARGV[1])
  if not readable or type(here) ~= 'table' or here.lease_ms ~= there.lease_ms then return {'differs', settings} end
  if here.shards == there.shards then
    if here.from and not there.from then -- it has grown
      settings = ARGV[1]
      redis.call('DEL', KEYS[5])
    end
  elseif there.from and here.shards == there.from then -- it grows
    settings = ARGV[1]
    redis.call('DEL', KEYS[5])
  else
    return {'differs', settings}
  end
end
local now = redis.call('TIME')
local ms = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
local old = redis.call('HGET', KEYS[2], ARGV[2])
local ends, record = string.match(old or '', '^(%d+) (.*)$')
redis.call('SET', KEYS[1], settings, 'PX', ARGV[5])
redis.call('HSET', KEYS[2], ARGV[2], string.format('%.0f', ms + ARGV[4]) .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('PEXPIRE', KEYS[3], ARGV[5])
if record ~= ARGV[3] or tonumber(ends) < ms then redis.pcall('PUBLISH', ARGV[6], 'members') end
local plan = redis.call('GET', KEYS[3]) or ''
if string.match(plan, '^%S*') == ARGV[7] then plan = '' end
local answer = {'ok', settings, plan}
if string.find(settings, '"from":', 1, true) then
  redis.call('PEXPIRE', KEYS[5], ARGV[5])
  for _, word in ipairs(redis.call('HGETALL', KEYS[5])) do answer[#answer + 1] = word end
end
return answer
