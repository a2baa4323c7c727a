-- announce: tell the channels, and keep the event in the capped history. Best
-- effort: no right to publish, or no memory, must not hurt the election.
-- KEYS history
-- ARGV event maxlen events_channel wake_channel message for the front row ('': none)
local failed = ''
local function try(...)
  local r = redis.pcall(...)
  if type(r) == 'table' and r.err then failed = r.err end
end
if ARGV[5] ~= '' then try('PUBLISH', ARGV[4], ARGV[5]) end
try('PUBLISH', ARGV[3], ARGV[1])
try('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'event', ARGV[1])
return failed
