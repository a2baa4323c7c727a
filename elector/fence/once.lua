-- One tick of a job is taken, or given back after a failure; or a job is made known.
-- KEYS the mark of the job; the jobs of its election: a sorted set by the end of their marks
-- ARGV take, back or meet; job, tick, every, token, attempt, by, keep, within, the tick before, why that did not run; times in milliseconds
-- A mark: a line of tick, every, token, when it was taken, the attempt, taken, failed or first (none has been taken yet), by whom;
-- then one for each gap, the newest first: after which tick, until which, when that was found, why
-- Answers: 'taken' for the attempt that runs the tick, with the gap that was found; else why not, with the mark
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local mode, job, attempt = ARGV[1], ARGV[2], ARGV[6]
local mark, gaps = redis.call('GET', KEYS[1]), ''
local tick, token, at, before, state, by, known, due
if mark then
  local every
  tick, every, token, at, before, state, by, gaps = string.match(mark, '^(%d+) (%d+) (%d+) (%d+) (%x+) (%l+) ([^\n]*)\n?(.*)$')
  if state ~= 'taken' and state ~= 'failed' and state ~= 'first' then return {'foreign', mark} end
  if math.max(#tick, #every + 2, #token - 2, #at) > 14 then return {'foreign', mark} end -- numbers that neither Lua nor Go keeps
  known = string.match(gaps, '^%d+ (%d+) %d+ [^\n]*\n') or gaps == '' and '0'
  if not known or #known > 14 then return {'foreign', mark} end
  tick, token, known, due = tonumber(tick), tonumber(token), math.max(tonumber(tick), tonumber(known)), tick + every
end
if mode == 'back' then
  if before == attempt and state == 'taken' then
    redis.call('SET', KEYS[1], (string.gsub(mark, ' taken ', ' failed ', 1)), 'PX', redis.call('PTTL', KEYS[1]))
  end
  return {'taken', ''}
end
if mode == 'meet' and mark then return {'known', mark} end
local wanted, keep = tonumber(ARGV[3]), tonumber(ARGV[8])
if before == attempt and state == 'taken' then
  -- The answer was lost, with the gap that was found then.
  local gap, after, found = string.match(gaps, '^((%d+) %d+ (%d+) [^\n]*\n)')
  if wanted == tick then return {'taken', found == at and gap or ''} end
  -- It was taken too late for its sender, who ran nothing: it belongs to the gap.
  if known == tick then
    known, due = tick - 1, tick
    if found == at and tonumber(ARGV[10]) >= tick then known, gaps = tonumber(after), string.sub(gaps, #gap + 1) end
  end
end
if wanted > now + math.max(tonumber(ARGV[4]), 60000) then return {'early', ''} end
local line = table.concat({ARGV[3], ARGV[4], ARGV[5], string.format('%d', now), attempt, mode == 'meet' and 'first' or 'taken', ARGV[7]}, ' ')
local found = ''
local old, gap = mode == 'take' and now - wanted > tonumber(ARGV[9]), tonumber(ARGV[10])
if mark then
  if tonumber(ARGV[5]) < token then return {'stale', mark} end
  if wanted < tick or wanted == tick and state == 'taken' then return {'ran', mark} end
  if old then line, gap = string.match(mark, '^[^\n]*'), wanted end
  if gap > known and gap >= due then -- otherwise the schedule has changed, and nothing was due
    local n = 0
    found = string.format('%d %d %d %s\n', known, gap, now, ARGV[11] .. (old and '; too old to run late' or ''))
    gaps = string.gsub(found .. gaps, '[^\n]*\n', function() n = n + 1; if n > 20 then return '' end end)
  end
elseif old then
  return {'old', ''}
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + keep, job)
redis.call('PEXPIRE', KEYS[2], string.format('%d', math.max(redis.call('PTTL', KEYS[2]), keep)))
redis.call('SET', KEYS[1], line .. '\n' .. gaps, 'PX', ARGV[8]) -- last: a user who lacks a right for the others takes nothing
return {old and 'old' or 'taken', found}
