-- The guard that stands before a user's script. It reads the mark, refuses an
-- older token, and raises the mark; then the script runs with its own KEYS and ARGV,
-- in the same step.
-- KEYS mark, the script's keys...
-- ARGV token, 'raise' or 'read', the script's arguments...
local newest = redis.pcall('GET', KEYS[1])
if type(newest) == 'table' then
  if string.find(newest.err, 'WRONGTYPE', 1, true) then
    return redis.error_reply('MANDATEMARK the key holds another type than a string')
  end
  return newest
end
if not newest and ARGV[2] == 'read' then return redis.error_reply('MANDATEMARK the key is missing') end
newest = newest or '0'
if not string.match(newest, '^%d+$') then return redis.error_reply('MANDATEMARK the key holds no token') end
if tonumber(newest) > tonumber(ARGV[1]) then return redis.error_reply('MANDATESTALE ' .. newest) end
if ARGV[2] == 'raise' and newest ~= ARGV[1] then redis.call('SET', KEYS[1], ARGV[1]) end
local keys, argv = {}, {}
for i = 2, #KEYS do keys[i - 1] = KEYS[i] end
for i = 3, #ARGV do argv[i - 2] = ARGV[i] end
