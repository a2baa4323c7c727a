-- feed: put a batch into the queue and move the checkpoint, in one step, under the
-- fence's guard.
-- KEYS queue checkpoint terms
-- ARGV the batch's name, the name of the one before it, token, worker, state ('': as it was), then
--      id, type, payload of each event
-- -> {'fed' or 'moved', now in ms}
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local got = redis.call('HMGET', KEYS[2], 'batch', 'token', 'at')
-- The answer to this very batch was lost, and it was sent again.
if got[1] == ARGV[1] then return {'fed', now} end
-- A request may be overtaken by its own repetition on another connection: only the
-- batch that follows what is here may be fed.
if (got[1] or '') ~= ARGV[2] then return {'moved', now} end
if got[2] ~= ARGV[3] then
  -- The first batch of a term: note the handover, and how long no worker fed.
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', '1000', '*', 'token', ARGV[3], 'worker', ARGV[4],
    'gap_ms', got[3] and string.format('%.0f', now - got[3]) or '0')
end
for i = 6, #ARGV, 3 do
  redis.call('XADD', KEYS[1], '*', 'id', ARGV[i], 'type', ARGV[i + 1], 'payload', ARGV[i + 2], 'token', ARGV[3])
end
redis.call('HSET', KEYS[2], 'batch', ARGV[1], 'token', ARGV[3], 'at', string.format('%.0f', now))
if ARGV[5] ~= '' then redis.call('HSET', KEYS[2], 'state', ARGV[5]) end
return {'fed', now}
