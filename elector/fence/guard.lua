-- The guard runs before a user's script. It reads the mark, refuses an older
-- token, and raises the mark. Then the script runs, in the same atomic step.
-- KEYS the script's keys..., mark
-- ARGV the script's arguments..., token, 'raise' or 'read'
do
  -- The guard's key and arguments are the last ones, so that it can remove them at
  -- no cost: the script finds only its own keys and arguments.
  local k, a = #KEYS, #ARGV
  local mark, token, access = KEYS[k], ARGV[a - 1], ARGV[a]
  KEYS[k], ARGV[a], ARGV[a - 1] = nil, nil, nil
  local newest = redis.pcall('GET', mark)
  if type(newest) == 'table' then
    if string.find(newest.err, 'WRONGTYPE', 1, true) then
      return redis.error_reply('MANDATETYPE of the mark')
    end
    return newest
  end
  if not newest and access == 'read' then return redis.error_reply('MANDATENONE no mark') end
  newest = newest or '0'
  -- 2^53-1 is the largest token: Lua's larger numbers are not exact. For the error, which
  -- is a single line, the mark is shortened, and unprintable characters are replaced.
  local n = string.match(newest, '^%d+$') and tonumber(newest)
  if not n or n > 9007199254740991 or n > tonumber(token) then
    return redis.error_reply('MANDATESTALE <' .. (string.gsub(string.sub(newest, 1, 40), '[^%w%p ]', '?')) .. '>')
  end
  if access == 'raise' and newest ~= token then redis.call('SET', mark, token) end
end
