-- raise: the nodes of a claim granted different tokens; set the counter to the highest
-- if the lock is still mine. The first renewal writes that token into the lock too.
-- KEYS lock fence
-- ARGV incarnation seq token
-- -> {status, fence}
if whose(got[1], ARGV[1], ARGV[2]) ~= 'same' or fence > tonumber(ARGV[3]) then return {'gone', stored} end
redis.call('SET', KEYS[2], ARGV[3])
return {'raised', ARGV[3]}
