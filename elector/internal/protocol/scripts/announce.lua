-- announce: publish an event, and append it to the history, after one that was missed there; or keep the election's
-- name among those of its prefix. Best effort: no right to publish must not hurt the election.
-- KEYS history
-- ARGV events head event missed name
-- head precedes the event in the message. event '': only keep the history; missed '': none was. name: the key is that
-- of the names, which may be in another slot than the history.
-- -> recorded, or why the history did not take it
if name ~= '' then
  -- By the time of the last event, without those that had none for long.
  local now = redis.call('TIME')
  local function ago(ms) return string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) - ms) end
  redis.pcall('ZADD', history_key, ago(0), name)
  redis.pcall('ZREMRANGEBYSCORE', history_key, '-inf', ago(KEPT_FOR))
  redis.pcall('PEXPIRE', history_key, KEPT_FOR)
  return answer{status = 'recorded'}
end
if event ~= '' then redis.pcall('PUBLISH', events, head .. event) end
return record(history_key, missed, event) or answer{status = 'recorded'}
