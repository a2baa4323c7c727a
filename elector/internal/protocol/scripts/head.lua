-- Every election script that reads keys starts with this, after the constants of scriptFacts in Go.
-- It reads all keys first, so that a key of another type is named in an error instead of failing
-- somewhere in the middle, and so that nothing is written before everything was read.
local got = {}
for i = 1, KEYS_READ do
  local r = redis.pcall('GET', KEYS[i])
  if type(r) == 'table' then
    if r.err and string.find(r.err, 'WRONGTYPE', 1, true) then
      return redis.error_reply('MANDATE key ' .. KEYS[i] .. ' holds another type than a string')
    end
    return named(r, 'get')
  end
  got[i] = r
end
if got[2] and not string.match(got[2], '^%d+$') then
  return redis.error_reply('MANDATE key ' .. KEYS[2] .. ' holds no number')
end
-- The counter as text and as a number: formatting a number takes longer than most of a script.
local stored = got[2] or '0'
local fence = tonumber(stored)

-- whose compares the attempt in a lock value with attempt seq of incarnation inc.
local function whose(v, inc, seq)
  if not v then return 'nobody' end
  local i, s = string.match(v, '^%S*/(%w+)/(%d+)')
  if i ~= inc then return 'other' end
  s, seq = tonumber(s), tonumber(seq)
  if s == seq then return 'same' end
  if s < seq then return 'older' end
  return 'newer'
end

-- identity returns the word that distinguishes this node from the others, which the node
-- keeps until it loses its data. A node without one takes the one that is offered. A full
-- memory must not cost a renewal: then the node has no identity.
local function identity(i, offer)
  if not got[i] or #got[i] > 16 or not string.match(got[i], '^%w+$') then
    got[i] = offer
    local r = redis.pcall('SET', KEYS[i], offer)
    if type(r) == 'table' and r.err then got[i] = '' end
  end
  return got[i]
end

-- reservedFor returns the incarnation for which this value of the heir's key reserves
-- leadership; nil if it does not.
local function reservedFor(v)
  if v and string.sub(v, 1, #RESERVED) == RESERVED then return string.sub(v, #RESERVED + 1) end
end
