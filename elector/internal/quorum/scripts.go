package quorum

import (
	_ "embed" // the scripts
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/head.lua
	headLua string
	//go:embed scripts/claim.lua
	claimLua string
	//go:embed scripts/renew.lua
	renewLua string
	//go:embed scripts/raise.lua
	raiseLua string
	//go:embed scripts/release.lua
	releaseLua string
	//go:embed scripts/announce.lua
	announceLua string

	head = scriptFacts + headLua

	claimScript    = redis.NewScript(head + claimLua)
	renewScript    = redis.NewScript(head + renewLua)
	raiseScript    = redis.NewScript(head + raiseLua)
	releaseScript  = redis.NewScript(head + releaseLua)
	announceScript = redis.NewScript(announceLua)

	scripts = map[Script]*redis.Script{
		ScriptClaim: claimScript, ScriptRenew: renewScript, ScriptRaise: raiseScript,
		ScriptRelease: releaseScript, ScriptAnnounce: announceScript,
	}
	sources = map[Script]string{
		ScriptClaim: head + claimLua, ScriptRenew: head + renewLua, ScriptRaise: head + raiseLua,
		ScriptRelease: head + releaseLua, ScriptAnnounce: announceLua,
	}
)

// Script names one of the scripts by which an election is run on a node.
type Script string

// The scripts.
const (
	ScriptClaim    Script = "claim"
	ScriptRenew    Script = "renew"
	ScriptRaise    Script = "raise"
	ScriptRelease  Script = "release"
	ScriptAnnounce Script = "announce"
)

// Source is what the script is made of, for those that run it by hand.
func (s Script) Source() string { return sources[s] }

// Positions among the arguments of the scripts, for those that look at requests on
// their way to a node.
const (
	ClaimValue   = 0 // the lock value that is asked for
	ClaimSeq     = 2
	ClaimHint    = 4
	RenewToken   = 4
	ReleaseSeq   = 1
	ReleaseToken = 3 // 0: the release of a failed attempt, which notifies nobody
)

func claimArgs(value, incarnation string, seq uint64, lease time.Duration, hint uint64, marker string, k Keys, identity string) []any {
	return []any{value, incarnation, seq, lease.Milliseconds(), hint, marker, k.Wake, k.Events, FrontRow, identity}
}

func raiseArgs(incarnation string, seq, token uint64) []any { return []any{incarnation, seq, token} }

func renewArgs(value, incarnation string, seq uint64, lease time.Duration, token, counter uint64, heir Heir, identity string) []any {
	return []any{value, incarnation, seq, lease.Milliseconds(), token, counter, heir.Incarnation, heir.Keep.Milliseconds(), identity}
}

func releaseArgs(incarnation string, seq uint64, lease time.Duration, token uint64, k Keys, value string, heir Heir, counter uint64) []any {
	return []any{incarnation, seq, lease.Milliseconds(), token, k.Wake, value, heir.Incarnation, heir.Keep.Milliseconds(), counter}
}

// Call is a script call as a node receives it.
type Call struct {
	Script Script
	Keys   []string // the lock's first, but for ScriptAnnounce
	Args   []string
}

// ParseCall recognizes a call of one of the scripts, by the script itself: its hash, or
// its source where the node did not know the hash yet.
func ParseCall(command string, args ...string) (Call, bool) {
	if len(args) < 2 || !strings.EqualFold(command, "EVALSHA") && !strings.EqualFold(command, "EVAL") {
		return Call{}, false
	}
	s, known := ScriptOf(args[0])
	keys, err := strconv.Atoi(args[1])
	if !known || err != nil || keys < 0 || len(args) < 2+keys {
		return Call{}, false
	}
	return Call{Script: s, Keys: args[2 : 2+keys], Args: args[2+keys:]}, true
}

// ScriptOf recognizes a script by its hash or its source.
func ScriptOf(sent string) (Script, bool) {
	for name, s := range scripts {
		if sent == s.Hash() || sent == sources[name] {
			return name, true
		}
	}
	return "", false
}

// RefusedClaim is what a node answers to a claim while another candidate holds its lock
// for so long still: for tests that stand in for a node.
func RefusedClaim(holder string, left time.Duration) []any {
	return []any{string(Held), "0", holder, left.Milliseconds(), int64(-1), int64(-1), ""}
}
