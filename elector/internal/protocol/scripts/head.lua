-- The functions of the scripts of an election, after the constants of scriptFacts in Go.

-- get reads a key. All keys are read before anything is written: a key of another type is named in an
-- error instead of failing somewhere in the middle.
local function get(key)
  local r = redis.pcall('GET', key)
  if type(r) ~= 'table' then return r end
  if r.err and string.find(r.err, 'WRONGTYPE', 1, true) then
    r = {err = 'MANDATE key ' .. key .. ' holds another type than a string'}
  end
  error(r)
end

-- number returns the counter in a value as text and as a number: formatting a number takes longer than
-- most of a script.
local function number(key, value)
  if value and not string.match(value, '^%d+$') then error({err = 'MANDATE key ' .. key .. ' holds no number'}) end
  return value or '0', tonumber(value or '0')
end

-- attempt returns the incarnation and the number of the attempt in a lock value.
local function attempt(v) return string.match(v, '^%S*/(%w+)/(%d+)') end

-- whose compares the attempt in a lock value with attempt seq of incarnation inc.
local function whose(v, inc, seq)
  if not v then return 'nobody' end
  local i, s = attempt(v)
  if i ~= inc then return 'other' end
  s, seq = tonumber(s), tonumber(seq)
  if s == seq then return 'same' end
  if s < seq then return 'older' end
  return 'newer'
end

-- identify returns the word that distinguishes this node from the others, which the node
-- keeps until it loses its data. A node without one takes the one that is offered. A full
-- memory must not cost a renewal: then the node has no identity.
local function identify(key, id, offer)
  if id and #id <= 16 and string.match(id, '^%w+$') then return id end
  local r = redis.pcall('SET', key, offer)
  return type(r) == 'table' and r.err and '' or offer
end

-- reservedFor returns the incarnation for which this value of the heir's key reserves
-- leadership; nil if it does not.
local function reservedFor(v)
  if v and string.sub(v, 1, #RESERVED) == RESERVED then return string.sub(v, #RESERVED + 1) end
end
