-- Up to Redis 7.0, a server that denies a script's command for want of a right does not name the
-- command in its error. This adds the name.
local server = redis
local function named(r, command)
  if type(r) == 'table' and r.err and string.find(r.err, "user executing the script can't", 1, true) then
    r.err = r.err .. ": '" .. string.lower(command) .. "'"
  end
  return r
end
local redis = setmetatable({call = function(...)
  local r = named(server.pcall(...), (...))
  if type(r) == 'table' and r.err then error(r) end
  return r
end}, {__index = server})
