-- record appends events to the capped history, and returns why that did not take one. Best effort: no right to it, or a
-- key of another type, must not hurt the election.
local function record(key, ...)
  local refused
  -- A full memory refuses a new entry, but not to a script that has written: otherwise a leader that shuts down
  -- would seem to have vanished.
  local kept = redis.pcall('PEXPIRE', key, KEPT_FOR)
  for _, event in ipairs({...}) do
    local r = event ~= '' and redis.pcall('XADD', key, 'MAXLEN', '~', MAX_ENTRIES, '*', 'event', event)
    if type(r) == 'table' and r.err then refused = r end
  end
  if kept ~= 1 then redis.pcall('PEXPIRE', key, KEPT_FOR) end -- it is new
  return refused
end
