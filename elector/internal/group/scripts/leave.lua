-- leave: a member is no member any more. The record of one that died remains, so that operators see that it
-- is missing.
-- KEYS members
-- ARGV incarnation channel 1 when it died
-- -> {'ok'}
local record = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^%d+ (.*)$')
local was = redis.call('HDEL', KEYS[1], ARGV[1])
if record and ARGV[3] == '1' then
  local now = redis.call('TIME')
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) - 1) .. ' ' .. record)
end
if was == 1 then redis.pcall('PUBLISH', ARGV[2], 'members') end
return {'ok'}
