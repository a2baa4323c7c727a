-- announce: publish a report, and keep it in the capped history. Best effort: no right to
-- publish, or no memory, must not hurt the election.
-- KEYS history
-- ARGV event maxlen channel, and what precedes the event in the message ('': it is published already)
-- -> {'recorded', 0}, or why the history did not take it
if ARGV[4] ~= '' then server.pcall('PUBLISH', ARGV[3], ARGV[4] .. ARGV[1]) end
local r = server.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'event', ARGV[1])
if type(r) == 'table' and r.err then return r end
return {'recorded', 0}
