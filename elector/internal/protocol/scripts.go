package protocol

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
	//go:embed scripts/forget.lua
	forgetLua string
	//go:embed scripts/rights.lua
	rightsLua string

	// ClaimScript takes the lock if it may be taken, and hands out a token.
	ClaimScript = newElectionScript(claimLua, "", 6, 7, claimArity)
	// RenewScript prolongs the lock of a term.
	RenewScript = newElectionScript(renewLua, quickLua, 6, 7, renewArity)
	// RaiseScript makes the tokens of a claim agree.
	RaiseScript = newElectionScript(raiseLua, "", 2, 2, 3)
	// ReleaseScript gives a lock back, and notifies the front row.
	ReleaseScript = newElectionScript(releaseLua, "", 4, 4, 10)
	// AnnounceScript publishes and records a report.
	AnnounceScript = newElectionScript(announceLua, "", 0, 1, AnnounceArity)

	scripts = map[Script]ElectionScript{
		ScriptClaim: ClaimScript, ScriptRenew: RenewScript, ScriptRaise: RaiseScript,
		ScriptRelease: ReleaseScript, ScriptAnnounce: AnnounceScript,
	}
)

// Scripts that are not for elections of a process.
var (
	ForgetScript = redis.NewScript(forgetLua) // of an operator: removes an election that no one leads
	RightsScript = redis.NewScript(rightsLua) // of doctor: what the user may not do
)

// ElectionScript is a script of which one call may be for several elections: it has the keys
// and the arguments of one behind those of another.
type ElectionScript struct {
	*redis.Script

	Source     string
	Keys, Args int // of each election
}

// newElectionScript makes what is done for one election into a script for any number. Of its keys the first ones
// are read before anything is written; one that reads none needs nothing of what is shared by those that do. quick, unless
// empty, does it in less time where it can.
func newElectionScript(lua, quick string, read, keys, args int) ElectionScript {
	head := headLua
	if read == 0 {
		head = ""
	}
	source := fmt.Sprintf("%slocal KEYS_READ, KEYS_EACH, ARGS_EACH = %d, %d, %d\nlocal quick\n%slocal function one(KEYS, ARGV)\n%s%send\n%s%s",
		scriptFacts, read, keys, args, deniedLua, head, lua, quick, manyLua)
	return ElectionScript{redis.NewScript(source), source, keys, args}
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
func (s Script) Source() string { return scripts[s].Source }

// Positions among the arguments of the scripts, for those that look at requests on
// their way to a node.
const (
	ClaimValue    = 0 // the lock value that is requested
	ClaimSeq      = 2
	ClaimHint     = 4
	ClaimIdentity = 9
	ClaimShown    = 10
	ClaimVersion  = 11
	claimArity    = 12
	RenewToken    = 4
	RenewCounter  = 5
	RenewIdentity = 8
	RenewShown    = 10
	renewArity    = 11
	MaxArity      = max(claimArity, renewArity)
	ReleaseSeq    = 1
	ReleaseToken  = 3 // 0: the release of a failed attempt, which notifies no candidate
	AnnounceArity = 5
)

// ClaimArgs and the like are the arguments of each script, in its order.
func ClaimArgs(value, incarnation string, seq uint64, lease time.Duration, hint uint64, marker string, k Keys, identity, shown, version string) []any {
	return []any{value, incarnation, seq, lease.Milliseconds(), hint, marker, k.Wake, k.Events, FrontRow, identity, shown, version}
}

// RaiseArgs are of what makes the tokens of a claim agree.
func RaiseArgs(incarnation string, seq, token uint64) []any { return []any{incarnation, seq, token} }

// RenewArgs are of the renewal.
func RenewArgs(value, incarnation string, seq uint64, lease time.Duration, token, counter uint64, heir Heir, identity, version, shown string) []any {
	return []any{value, incarnation, seq, lease.Milliseconds(), token, counter, heir.Incarnation, heir.Keep.Milliseconds(), identity, version, shown}
}

// AnnounceArgs has pointers to what each announcement of an election has in common: go-redis sends them as strings, and
// Go makes an interface of a pointer without an allocation.
func AnnounceArgs(event []byte, events *string, k *Keys, front *string) [AnnounceArity]any {
	return [AnnounceArity]any{event, MaxEntries, events, &k.Wake, front}
}

// OnlyHeld is true of a release that changes nothing on a node that does not hold the lock.
type OnlyHeld bool

func (h OnlyHeld) arg() int {
	if h {
		return 1
	}
	return 0
}

// ReleaseArgs are of the release.
func ReleaseArgs(incarnation string, seq uint64, lease time.Duration, token uint64, k Keys, value string, heir Heir, counter uint64, held OnlyHeld) []any {
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
	if n%s.Keys != 0 || len(argv) != n/s.Keys*s.Args {
		return nil
	}
	var all []Call
	for len(keys) > 0 {
		all = append(all, Call{name, keys[:s.Keys], argv[:s.Args]})
		keys, argv = keys[s.Keys:], argv[s.Args:]
	}
	return all
}

// ScriptOf recognizes a script by its hash or its source.
func ScriptOf(sent string) (Script, bool) {
	for name, s := range scripts {
		if sent == s.Hash() || sent == s.Source {
			return name, true
		}
	}
	return "", false
}
