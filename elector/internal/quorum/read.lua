-- read: what this node knows of the election. Writes nothing.
-- KEYS lock fence new pause next
-- -> {holder, ms left, fence, ms it will not vote, pause note, pause ms left, next}
local function left(i) return got[i] and redis.call('PTTL', KEYS[i]) or 0 end
return {got[1] or '', left(1), got[2] and text(fence) or '', left(3), got[4] or '', left(4), got[5] or ''}
