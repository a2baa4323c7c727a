-- publish: store a plan and notify the members. The plan to replace may be of a later term: the assigner, which
-- read that version, still leads, so no other one can have written it.
-- KEYS plan
-- ARGV version plan keep_ms channel version to replace
-- -> {'ok'} or {'another'}
local version = string.match(redis.call('GET', KEYS[1]) or '', '^%S*')
if version ~= ARGV[5] then return {'another'} end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
redis.pcall('PUBLISH', ARGV[4], 'plan')
return {'ok'}
