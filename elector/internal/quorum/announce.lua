-- announce: tell the channels, and keep the event in the capped history. Best
-- effort: no right to publish, or no memory, must not hurt the election.
-- KEYS history
-- ARGV event maxlen (0: not kept) channel...
local failed = ''
for i = 3, #ARGV do
  local r = redis.pcall('PUBLISH', ARGV[i], ARGV[1])
  if type(r) == 'table' and r.err then failed = r.err end
end
if ARGV[2] ~= '0' then
  local r = redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'event', ARGV[1])
  if type(r) == 'table' and r.err then failed = r.err end
end
return failed
