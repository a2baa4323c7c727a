-- publish: store a plan and tell the members. A plan of a later term stays, unless the
-- assigner names its version: it still leads, so nobody else can have written that.
-- KEYS plan
-- ARGV token seq plan keep_ms channel version to replace in any case
-- -> {'ok'} or {'newer'}
local version = string.match(redis.call('GET', KEYS[1]) or '', '^%S*')
local token, seq = string.match(version, '^(%d+)%.(%d+)$')
token, seq = tonumber(token), tonumber(seq)
if token and version ~= ARGV[6] and (token > tonumber(ARGV[1]) or token == tonumber(ARGV[1]) and seq > tonumber(ARGV[2])) then
  return {'newer'}
end
redis.call('SET', KEYS[1], ARGV[1] .. '.' .. ARGV[2] .. ' ' .. ARGV[3], 'PX', ARGV[4])
redis.pcall('PUBLISH', ARGV[5], 'plan')
return {'ok'}
