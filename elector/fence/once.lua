-- One tick of a job is taken, or given back after a failure.
-- KEYS the ticks of an election: a hash of marks by job
-- ARGV job, tick, every, token, attempt, by, keep, jobs; times in milliseconds; tick '' gives back
-- A mark: tick, every, token, when it was taken, the attempt, failed or taken, by whom
-- Answers: 'taken' for the attempt that runs the tick; else why not, with the mark
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local job, attempt = ARGV[1], ARGV[5]
local mark = redis.call('HGET', KEYS[1], job)
local tick, token, before, state
if mark then
  local every, at
  tick, every, token, at, before, state = string.match(mark, '^(%d+) (%d+) (%d+) (%d+) (%x+) (%l+) ')
  if state ~= 'taken' and state ~= 'failed' then return {'foreign', mark} end
  if math.max(#tick, #every + 2, #token - 2, #at) > 14 then return {'foreign', mark} end -- numbers that neither Lua nor Go keeps
  tick, token = tonumber(tick), tonumber(token)
end
if ARGV[2] == '' then
  if before == attempt and state == 'taken' then
    redis.call('HSET', KEYS[1], job, (string.gsub(mark, ' taken ', ' failed ', 1)))
  end
  return {'taken', ''}
end
if before == attempt then return {'taken', ''} end -- sent twice: its first answer was lost
local wanted, keep = tonumber(ARGV[2]), tonumber(ARGV[7])
local ahead = math.max(tonumber(ARGV[3]), 60000)
if wanted > now + ahead then return {'early', ''} end
if mark then
  if tonumber(ARGV[4]) < token then return {'stale', mark} end
  if wanted < tick or wanted == tick and state ~= 'failed' then return {'ran', mark} end
elseif wanted < now + ahead - keep then
  return {'late', ''} -- it may have run: its mark would be gone by now
elseif redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[8]) then
  return {'many', ''}
end
redis.call('HSET', KEYS[1], job,
  table.concat({ARGV[2], ARGV[3], ARGV[4], string.format('%d', now), attempt, 'taken', ARGV[6]}, ' '))
redis.call('PEXPIRE', KEYS[1], string.format('%d', math.max(redis.call('PTTL', KEYS[1]), keep)))
return {'taken', ''}
