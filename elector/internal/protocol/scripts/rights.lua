-- rights: try each command that a candidate uses on keys of an election, on separate keys,
-- and clean up. A missing right (or a full memory, or a read-only replica) becomes
-- a line in the answer. The keys expire after a second in any case.
-- KEYS string stream names hash
-- ARGV channel
-- -> what was refused, each "COMMAND: why"
local refused = {}
local function try(...)
  local r = redis.pcall(...)
  if type(r) == 'table' and r.err then refused[#refused + 1] = select(1, ...) .. ': ' .. r.err end
end
try('SET', KEYS[1], '0', 'PX', '1000')
try('GET', KEYS[1])
try('PEXPIRE', KEYS[1], '1000')
try('PTTL', KEYS[1])
try('TIME')
try('PUBSUB', 'NUMSUB', ARGV[1])
try('PUBLISH', ARGV[1], 'rights')
try('XADD', KEYS[2], 'MAXLEN', '~', '1', '*', 'event', '')
redis.pcall('PEXPIRE', KEYS[2], '1000')
try('XREVRANGE', KEYS[2], '+', '-', 'COUNT', '1')
try('ZADD', KEYS[3], '0', 'rights')
redis.pcall('PEXPIRE', KEYS[3], '1000')
try('ZREVRANGE', KEYS[3], '0', '0')
try('ZREMRANGEBYSCORE', KEYS[3], '-inf', '0')
-- Of the members of a group of shards.
try('HSET', KEYS[4], 'rights', '0')
redis.pcall('PEXPIRE', KEYS[4], '1000')
try('HGET', KEYS[4], 'rights')
try('HGETALL', KEYS[4])
try('HDEL', KEYS[4], 'rights')
try('DEL', KEYS[1])
redis.pcall('DEL', KEYS[2], KEYS[3], KEYS[4])
return refused
