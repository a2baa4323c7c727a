-- forget: remove the keys of an election, unless the lock exists: it was granted
-- meanwhile, or another program wrote it.
-- KEYS lock fence new pause heir id history
-- -> 1: removed, 0: the lock is held
local lock = redis.pcall('GET', KEYS[1])
if lock then return 0 end
for i = 2, #KEYS do redis.call('DEL', KEYS[i]) end
return 1
