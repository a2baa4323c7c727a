-- A tick of a job is decided, or a run by hand begins; or a run has ended.
-- KEYS the mark of the job, a hash; the jobs of its election: a sorted set by the end of their marks
-- ARGV mode, job, tick, the one before, the one after, token, attempt, by, keep, late, why, outcome, detail; times in milliseconds, 0: none
-- Modes: take; meet (take, but only what was missed: the job is known, and the tick not older than the first undecided one); hand; end
-- Fields of a mark: tick (the newest that was decided), next (the first that was not), token, attempt and state (of tick: taken, owed, late, first);
-- done (the newest attempt whose run has ended); of the newest run: run (its attempt), what (its tick, or hand), began, by, of (its token), ended, outcome, detail; gaps: a line each, the newest first
-- Answers: the verdict, the time, the gaps that this attempt has found; then the mark as it was: field, value, ...
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local mode, job, wanted, prev, following = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local token, attempt, keep, late = tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[9]), ARGV[10] ~= ''
local old, m = redis.call('HGETALL', KEYS[1]), {}
if #old > 100 then old = {'state', ''} end -- another program's
for i = 1, #old, 2 do m[old[i]] = old[i + 1] end
local known, gaps, stamp = #old > 0, m.gaps or '', string.format('%.0f', now)

-- found returns the gaps that this attempt has found.
local function found()
  return (string.gsub(gaps, '[^\n]*\n', function(line) if string.match(line, '^%d+ %d+ %d+ (%x+) ') ~= attempt then return '' end end))
end
local function answer(verdict) return {verdict, stamp, found(), unpack(old)} end
-- Numbers that neither Lua nor Go keeps are another program's.
local function number(text, most)
  local n = text and string.match(text, '^%d+$') and tonumber(text)
  return n and n <= most and n
end
local times, tokens = 1e14 - 1, 9007199254740991

local tick, first, newest = number(m.tick, times), number(m.next, times), number(m.token, tokens)
local sound = tick and first and newest and m.state and m.state ~= '' and number(m.began or '0', times) and number(m.ended or '0', times)
  and number(m.of or '0', tokens) and (not m.what or not string.match(m.what, '^%d+$') or number(m.what, times))
if known and not sound then return answer('foreign') end
if mode == 'end' then
  if ARGV[12] == 'nothing done' and m.attempt == attempt and m.state == 'taken' then redis.call('HSET', KEYS[1], 'state', 'owed') end
  if known then redis.call('HSET', KEYS[1], 'done', attempt) end
  if m.run ~= attempt then return answer('overtaken') end
  redis.call('HSET', KEYS[1], 'ended', stamp, 'outcome', ARGV[12], 'detail', ARGV[13])
  return answer('ended')
end
if known and token < newest then return answer('stale') end
if m.done == attempt then return answer('ran') end -- this request comes after the end of its run
local mine = m.attempt == attempt and m.state == 'taken' -- the answer was lost; or it came too late for its sender, who ran nothing
if m.state == 'owed' or mine then first = tick end

local verdict = 'run'
if mode == 'hand' then verdict = 'hand'
elseif known and (wanted < tick or wanted == tick and first ~= tick) then verdict = 'ran'
elseif mode == 'meet' and (not known or first == 0 or wanted < first) then verdict = 'not due'
elseif late then verdict = 'late' end
local set = {'token', ARGV[6]}
local function put(...) for _, v in ipairs({...}) do set[#set + 1] = v end end
if verdict == 'run' or verdict == 'late' then
  local last = late and wanted or known and first == tick and math.max(tick, prev) or prev
  if known and first > 0 and last >= first and (late or last < wanted) then
    local n = 0
    gaps = string.format('%.0f %.0f %s %s %s\n', first, last, stamp, attempt, ARGV[11]) .. gaps
    gaps = string.gsub(gaps, '[^\n]*\n', function() n = n + 1; if n > 20 then return '' end end)
    put('gaps', gaps)
  end
  if late and not known then return answer('late') end
  put('tick', ARGV[3], 'next', ARGV[5], 'attempt', attempt, 'state', late and 'late' or 'taken')
elseif not known then
  put('tick', mode == 'hand' and '0' or ARGV[3], 'next', ARGV[5], 'attempt', attempt, 'state', 'first')
elseif mode == 'meet' and (following == 0 or following > tick) then
  put('next', ARGV[5]) -- the schedule may have changed
end
if verdict == 'run' or verdict == 'hand' then
  put('run', attempt, 'what', mode == 'hand' and 'hand' or ARGV[3], 'began', stamp, 'by', ARGV[8], 'of', ARGV[6], 'ended', '0', 'outcome', '', 'detail', '')
elseif m.outcome == '' and (mine or m.of ~= ARGV[6]) then -- mine: it was not begun; else its leader has gone, and has reported no end
  put('ended', stamp, 'outcome', mine and 'nothing done' or 'unknown')
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + keep, job)
redis.call('PEXPIRE', KEYS[2], string.format('%.0f', math.max(redis.call('PTTL', KEYS[2]), keep)))
redis.call('HSET', KEYS[1], unpack(set)) -- last: a user who lacks a right for the others takes nothing
redis.call('PEXPIRE', KEYS[1], ARGV[9])
return answer(verdict)
