-- announce: publish a report, and keep it in the capped history, and the election's name among
-- those of its prefix. Best effort: no right to publish, or no memory, must not hurt the election.
-- KEYS history names (both the same where one call must not have both)
-- ARGV event ('': keep the history, no more) maxlen channel, and what precedes the event in the message ('': it
-- is published already) kept_ms name ('': it is kept apart)
-- -> {'recorded', 0}, or why the history did not take it
if ARGV[4] ~= '' then server.pcall('PUBLISH', ARGV[3], ARGV[4] .. ARGV[1]) end
-- A full memory refuses a new entry, but not to a script that has written: otherwise a leader that shuts down
-- would seem to have vanished.
server.pcall('PEXPIRE', KEYS[1], ARGV[5])
local r = ARGV[1] ~= '' and server.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'event', ARGV[1])
server.pcall('PEXPIRE', KEYS[1], ARGV[5])
-- The names by the time of the last event, without those that had none for long.
if ARGV[6] ~= '' then
  local now = server.call('TIME')
  local function ago(ms) return string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) - ms) end
  server.pcall('ZADD', KEYS[2], ago(0), ARGV[6])
  server.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', ago(ARGV[5]))
  server.pcall('PEXPIRE', KEYS[2], ARGV[5])
end
if type(r) == 'table' and r.err then return r end
return {'recorded', 0}
