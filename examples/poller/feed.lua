-- feed: put a batch into the queue and move the checkpoint, in one step, under the fence's guard.
-- KEYS queue checkpoint
-- ARGV the batch's name, the name of the one before it, token, state,
--      then id, type, payload of each event
-- -> 'fed' or 'moved'
local last = redis.call('HGET', KEYS[2], 'batch') or ''
-- The answer to this very batch was lost, and it was sent again.
if last == ARGV[1] then return 'fed' end
-- A request may be overtaken by its own repetition on another connection: only the
-- batch that follows what is here may be fed.
if last ~= ARGV[2] then return 'moved' end
for i = 5, #ARGV, 3 do
  redis.call('XADD', KEYS[1], '*', 'id', ARGV[i], 'type', ARGV[i + 1], 'payload', ARGV[i + 2], 'token', ARGV[3])
end
redis.call('HSET', KEYS[2], 'batch', ARGV[1], 'state', ARGV[4])
return 'fed'
