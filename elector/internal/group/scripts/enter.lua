-- enter: the owners of shards query, after they have won and before they work, how many
-- shards the group has: one that knows of fewer must not work. Once a majority has answered
-- well, and while the group grows, they also name their shards: these are noted as cut, which
-- means that nobody owns them as one of so few shards as before, and nobody will.
-- KEYS settings cuts
-- ARGV shards keep_ms channel shard token ...
-- -> {'ok'} or {'no'}
local settings = redis.call('GET', KEYS[1])
if not settings then return {'no'} end
local readable, here = pcall(cjson.decode, settings)
if not readable or type(here) ~= 'table' or here.shards ~= tonumber(ARGV[1]) then return {'no'} end
if here.from then
  local news = false
  for i = 4, #ARGV, 2 do
    if tonumber(ARGV[i]) < here.from and not redis.call('HGET', KEYS[2], ARGV[i]) then
      redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
      news = true
    end
  end
  if news then
    redis.call('PEXPIRE', KEYS[2], ARGV[2])
    redis.pcall('PUBLISH', ARGV[3], 'cut')
  end
end
return {'ok'}
