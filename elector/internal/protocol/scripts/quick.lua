-- This makes a renewal that finds everything on the node as its arguments show it, as nearly all do,
-- in half of the server's time. If anything differs or fails, renew.lua takes over: until then
-- nothing was changed except that the lock was prolonged.
-- KEYS and ARGV are those of the renewal, behind k and a. -> AS_SHOWN, or nothing
quick = function(k, a)
  local call, counter, keep = server.pcall, ARGV[a + 6], ARGV[a + 7] ~= ''
  if call('GET', KEYS[k + 1]) ~= ARGV[a + 1] then return end
  if call('GET', KEYS[k + 2]) ~= counter or counter ~= ARGV[a + 5] and tonumber(counter) < tonumber(ARGV[a + 5]) then return end
  local first = call('GET', KEYS[k + 4])
  if keep then
    if first ~= RESERVED .. ARGV[a + 7] then return end
  elseif first then -- nearly always the hint that names a follower, which stays
    if type(first) ~= 'string' or string.sub(first, 1, #RESERVED) == RESERVED then return end
  end
  if call('GET', KEYS[k + 5]) then return end
  if ARGV[a + 10] == '' or call('GET', KEYS[k + 6]) ~= ARGV[a + 10] then return end
  if call('PEXPIRE', KEYS[k + 1], ARGV[a + 4]) ~= 1 then return end
  if keep and call('PEXPIRE', KEYS[k + 4], ARGV[a + 4] + ARGV[a + 8]) ~= 1 then return end
  return AS_SHOWN
end
