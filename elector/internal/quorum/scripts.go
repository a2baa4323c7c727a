package quorum

import (
	_ "embed" // the scripts

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed head.lua
	headLua string
	//go:embed claim.lua
	claimLua string
	//go:embed renew.lua
	renewLua string
	//go:embed raise.lua
	raiseLua string
	//go:embed release.lua
	releaseLua string
	//go:embed announce.lua
	announceLua string

	claimScript    = redis.NewScript(headLua + claimLua)
	renewScript    = redis.NewScript(headLua + renewLua)
	raiseScript    = redis.NewScript(headLua + raiseLua)
	releaseScript  = redis.NewScript(headLua + releaseLua)
	announceScript = redis.NewScript(announceLua)
)
