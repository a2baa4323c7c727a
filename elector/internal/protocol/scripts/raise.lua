-- raise: the nodes of a claim granted different tokens; set the counter to the highest
-- if the lock is still mine. The first renewal writes that token into the lock too.
-- KEYS lock fence
-- ARGV incarnation seq token
-- -> raised or gone, fence
local stored, counter = number(fence_key, fence)
if whose(lock, incarnation, seq) ~= 'same' or counter > tonumber(token) then return answer{status = 'gone', fence = stored} end
redis.call('SET', fence_key, token)
return answer{status = 'raised', fence = token}
