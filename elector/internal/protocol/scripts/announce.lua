-- announce: publish on the channels, and keep the event in the capped history. Best
-- effort: no right to publish, or no memory, must not hurt the election.
-- KEYS history
-- ARGV event maxlen events_channel ('': no message to it) wake_channel message for the front row ('': none)
-- -> {'recorded', 0}, or why the history did not take it
if ARGV[5] ~= '' then server.pcall('PUBLISH', ARGV[4], ARGV[5]) end
if ARGV[3] ~= '' then server.pcall('PUBLISH', ARGV[3], ARGV[1]) end
local r = server.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'event', ARGV[1])
if type(r) == 'table' and r.err then return r end
return {'recorded', 0}
