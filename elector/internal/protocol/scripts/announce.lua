-- announce: publish a report, and keep it in the capped history, and the election's name among
-- those of its prefix. Best effort: no right to publish, or no memory, must not hurt the election.
-- KEYS history names
-- ARGV event events head election
-- Both keys are the same where one call must not have both. head precedes the event in the message; '': it is
-- published already. event '': keep the history, no more. election '': its name is kept apart.
-- -> recorded, or why the history did not take it
if head ~= '' then server.pcall('PUBLISH', events, head .. event) end
-- A full memory refuses a new entry, but not to a script that has written: otherwise a leader that shuts down
-- would seem to have vanished.
server.pcall('PEXPIRE', history_key, KEPT_FOR)
local r = event ~= '' and server.pcall('XADD', history_key, 'MAXLEN', '~', MAX_ENTRIES, '*', 'event', event)
server.pcall('PEXPIRE', history_key, KEPT_FOR)
-- The names by the time of the last event, without those that had none for long.
if election ~= '' then
  local now = server.call('TIME')
  local function ago(ms) return string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) - ms) end
  server.pcall('ZADD', names_key, ago(0), election)
  server.pcall('ZREMRANGEBYSCORE', names_key, '-inf', ago(KEPT_FOR))
  server.pcall('PEXPIRE', names_key, KEPT_FOR)
end
if type(r) == 'table' and r.err then return r end
return answer{status = 'recorded'}
