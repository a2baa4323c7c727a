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
	//go:embed scripts/raise.lua
	raiseLua string
	//go:embed scripts/release.lua
	releaseLua string
	//go:embed scripts/announce.lua
	announceLua string
	//go:embed scripts/many.lua
	manyLua string
	//go:embed scripts/rights.lua
	rightsLua string

	// ClaimScript takes the lock if it can be taken, and grants a token.
	ClaimScript = newElectionScript(claimLua, 6, 6, claimArity)
	// RenewScript prolongs the lock of a term.
	RenewScript = newElectionScript(renewLua, 6, 6, renewArity)
	// RaiseScript raises the tokens of a claim to the highest one.
	RaiseScript = newElectionScript(raiseLua, 2, 2, 3)
	// ReleaseScript deletes the lock, and publishes the end of the term.
	ReleaseScript = newElectionScript(releaseLua, 4, 4, 11)
	// AnnounceScript records a report, and publishes it unless the release has.
	AnnounceScript = newElectionScript(announceLua, 0, 2, announceArity)

	scripts = map[Script]ElectionScript{
		ScriptClaim: ClaimScript, ScriptRenew: RenewScript, ScriptRaise: RaiseScript,
		ScriptRelease: ReleaseScript, ScriptAnnounce: AnnounceScript,
	}
)

// Scripts for operators, which are not batched.
var (
	RightsScript = redis.NewScript(rightsLua) // finds the rights that the user lacks, for doctor
)

// NamedScript returns a script whose errors name a command that the user may not run (denied.lua).
func NamedScript(lua string) *redis.Script { return redis.NewScript(deniedLua + lua) }

// ElectionScript is a script of which one call can serve several elections: the keys and the
// arguments of each election follow those of the one before.
type ElectionScript struct {
	*redis.Script

	Source     string
	Keys, Args int // of each election
}

// newElectionScript turns lua, which serves one election, into a script for any number of them. The
// first read of its keys are read before anything is written (head.lua); a script that reads none
// does not need head.lua.
func newElectionScript(lua string, read, keys, args int) ElectionScript {
	head := headLua
	if read == 0 {
		head = ""
	}
	source := fmt.Sprintf("%slocal KEYS_READ, KEYS_EACH, ARGS_EACH = %d, %d, %d\n%slocal function one(KEYS, ARGV)\n%s%send\n%s",
		scriptFacts, read, keys, args, deniedLua, head, lua, manyLua)
	return ElectionScript{redis.NewScript(source), source, keys, args}
}

// Script names one of the scripts that run an election on a node.
type Script string

// The scripts.
const (
	ScriptClaim    Script = "claim"
	ScriptRenew    Script = "renew"
	ScriptRaise    Script = "raise"
	ScriptRelease  Script = "release"
	ScriptAnnounce Script = "announce"
)

// Source returns the source of the script, for callers that run it themselves.
func (s Script) Source() string { return scripts[s].Source }

// Positions among the arguments of the scripts, for code that sets single arguments,
// and for tests that inspect requests on their way to a node.
const (
	ClaimValue    = 0 // the lock value that is requested
	ClaimSeq      = 2
	ClaimHint     = 4
	ClaimIdentity = 7
	claimArity    = 9
	RenewToken    = 4
	RenewCounter  = 5
	RenewIdentity = 8
	RenewEcho     = 9
	renewArity    = 10
	ReleaseSeq    = 1
	ReleaseToken  = 3 // 0: of a failed attempt, whose release publishes nothing
	announceArity = 6
)

// ClaimArgs returns the arguments of ClaimScript, in its order.
func ClaimArgs(value, incarnation string, seq uint64, lease time.Duration, hint uint64, marker string, k Keys, identity, echo string) []any {
	return []any{value, incarnation, seq, lease.Milliseconds(), hint, marker, k.Ask, identity, echo}
}

// RaiseArgs returns the arguments of RaiseScript, in its order.
func RaiseArgs(incarnation string, seq, token uint64) []any { return []any{incarnation, seq, token} }

// RenewArgs returns the arguments of RenewScript, in its order.
func RenewArgs(value, incarnation string, seq uint64, lease time.Duration, token, counter uint64, heir Heir, identity, echo string) []any {
	return []any{value, incarnation, seq, lease.Milliseconds(), token, counter, heir.Incarnation, heir.Keep.Milliseconds(), identity, echo}
}

// AnnounceArgs returns the arguments of AnnounceScript, in its order. Without an event it only keeps the
// history, without a name of the election only that.
func AnnounceArgs(event []byte, events, head, name string) []any {
	return []any{event, MaxEntries, events, head, KeptFor.Milliseconds(), name}
}

// OnlyIfHeld is true for a release that changes nothing on a node that does not hold the lock.
type OnlyIfHeld bool

func (h OnlyIfHeld) arg() int {
	if h {
		return 1
	}
	return 0
}

// ReleaseArgs returns the arguments of ReleaseScript, in its order.
func ReleaseArgs(incarnation string, seq uint64, lease time.Duration, token uint64, k Keys, value string, heir Heir, counter uint64, held OnlyIfHeld, event []byte) []any {
	return []any{incarnation, seq, lease.Milliseconds(), token, k.Events, value, heir.Incarnation, heir.Keep.Milliseconds(), max(token, counter) + 1, held.arg(), event}
}

// Call is what a script call requests of a node for one election.
type Call struct {
	Script Script
	Keys   []string // the lock's key first, except for ScriptAnnounce
	Args   []string
}

// ParseCalls parses a command that a node receives, and returns one Call per election, in
// order, if the command runs one of the scripts: by its hash, or by its source if the node did
// not know the hash. It returns nil for any other command. The keys and arguments are slices
// of args.
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
