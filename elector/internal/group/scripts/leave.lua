-- leave: a member is no member any more.
-- KEYS members
-- ARGV incarnation channel
if redis.call('HDEL', KEYS[1], ARGV[1]) == 1 then redis.pcall('PUBLISH', ARGV[2], 'members') end
return {'ok'}
