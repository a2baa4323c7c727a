package quorum

import (
	_ "embed" // the scripts
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/denied.lua
	deniedLua string
	//go:embed scripts/head.lua
	headLua string
	//go:embed scripts/claim.lua
	claimLua string
	//go:embed scripts/renew.lua
	renewLua string
	//go:embed scripts/quick.lua
	quickLua string
	//go:embed scripts/raise.lua
	raiseLua string
	//go:embed scripts/release.lua
	releaseLua string
	//go:embed scripts/announce.lua
	announceLua string
	//go:embed scripts/many.lua
	manyLua string

	claimScript    = newElectionScript(claimLua, "", 6, 7, claimArity)
	renewScript    = newElectionScript(renewLua, quickLua, 6, 7, renewArity)
	raiseScript    = newElectionScript(raiseLua, "", 2, 2, 3)
	releaseScript  = newElectionScript(releaseLua, "", 4, 4, 10)
	announceScript = newElectionScript(announceLua, "", 0, 1, announceArity)

	scripts = map[Script]electionScript{
		ScriptClaim: claimScript, ScriptRenew: renewScript, ScriptRaise: raiseScript,
		ScriptRelease: releaseScript, ScriptAnnounce: announceScript,
	}
)

// electionScript is a script of which one call may be for several elections: it has the keys
// and the arguments of one behind those of another.
type electionScript struct {
	*redis.Script

	source     string
	keys, args int // of each election
}

// newElectionScript makes what is done for one election into a script for any number. Of its keys the first ones
// are read before anything is written; one that reads none needs nothing of what is shared by those that do. quick, unless
// empty, does it in less time where it can.
func newElectionScript(lua, quick string, read, keys, args int) electionScript {
	head := headLua
	if read == 0 {
		head = ""
	}
	source := fmt.Sprintf("%slocal KEYS_READ, KEYS_EACH, ARGS_EACH = %d, %d, %d\nlocal quick\n%slocal function one(KEYS, ARGV)\n%s%send\n%s%s",
		scriptFacts, read, keys, args, deniedLua, head, lua, quick, manyLua)
	return electionScript{redis.NewScript(source), source, keys, args}
}

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
func (s Script) Source() string { return scripts[s].source }

// Positions among the arguments of the scripts, for those that look at requests on
// their way to a node.
const (
	ClaimValue    = 0 // the lock value that is requested
	ClaimSeq      = 2
	ClaimHint     = 4
	claimIdentity = 9
	claimShown    = 10
	claimVersion  = 11
	claimArity    = 12
	RenewToken    = 4
	renewCounter  = 5
	renewIdentity = 8
	renewShown    = 10
	renewArity    = 11
	maxArity      = max(claimArity, renewArity)
	ReleaseSeq    = 1
	ReleaseToken  = 3 // 0: the release of a failed attempt, which notifies no candidate
	announceArity = 5
)

func claimArgs(value, incarnation string, seq uint64, lease time.Duration, hint uint64, marker string, k Keys, identity, shown, version string) []any {
	return []any{value, incarnation, seq, lease.Milliseconds(), hint, marker, k.Wake, k.Events, FrontRow, identity, shown, version}
}

func raiseArgs(incarnation string, seq, token uint64) []any { return []any{incarnation, seq, token} }

func renewArgs(value, incarnation string, seq uint64, lease time.Duration, token, counter uint64, heir Heir, identity, version, shown string) []any {
	return []any{value, incarnation, seq, lease.Milliseconds(), token, counter, heir.Incarnation, heir.Keep.Milliseconds(), identity, version, shown}
}

// announceArgs has pointers to what each announcement of an election has in common: go-redis sends them as strings, and
// Go makes an interface of a pointer without an allocation.
func announceArgs(event []byte, events *string, k *Keys, front *string) [announceArity]any {
	return [announceArity]any{event, maxEntries, events, &k.Wake, front}
}

// onlyHeld is true of a release that changes nothing on a node that does not hold the lock.
type onlyHeld bool

func (h onlyHeld) arg() int {
	if h {
		return 1
	}
	return 0
}

func releaseArgs(incarnation string, seq uint64, lease time.Duration, token uint64, k Keys, value string, heir Heir, counter uint64, held onlyHeld) []any {
	return []any{incarnation, seq, lease.Milliseconds(), token, k.Wake, value, heir.Incarnation, heir.Keep.Milliseconds(), max(token, counter) + 1, held.arg()}
}

// Call is what a node is to do for one election, by a script call as it receives it.
type Call struct {
	Script Script
	Keys   []string // the lock's first, but for ScriptAnnounce
	Args   []string
}

// ParseCalls recognizes a call of one of the scripts, by the script itself: its hash, or
// its source where the node did not know the hash yet. It returns what the call is to do for each
// election, in their order; nothing when it is no call of ours. The keys and arguments are
// parts of args.
func ParseCalls(command string, args ...string) []Call {
	if len(args) < 2 || !strings.EqualFold(command, "EVALSHA") && !strings.EqualFold(command, "EVAL") {
		return nil
	}
	name, known := ScriptOf(args[0])
	n, err := strconv.Atoi(args[1])
	if !known || err != nil || n < 0 || len(args) < 2+n {
		return nil
	}
	s, keys, argv := scripts[name], args[2:2+n], args[2+n:]
	if n%s.keys != 0 || len(argv) != n/s.keys*s.args {
		return nil
	}
	var all []Call
	for len(keys) > 0 {
		all = append(all, Call{name, keys[:s.keys], argv[:s.args]})
		keys, argv = keys[s.keys:], argv[s.args:]
	}
	return all
}

// ScriptOf recognizes a script by its hash or its source.
func ScriptOf(sent string) (Script, bool) {
	for name, s := range scripts {
		if sent == s.Hash() || sent == s.source {
			return name, true
		}
	}
	return "", false
}
