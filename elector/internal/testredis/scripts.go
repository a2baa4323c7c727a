package testredis

import (
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

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

var scripts = map[Script]protocol.ElectionScript{
	ScriptClaim: protocol.ClaimScript, ScriptRenew: protocol.RenewScript, ScriptRaise: protocol.RaiseScript,
	ScriptRelease: protocol.ReleaseScript, ScriptAnnounce: protocol.AnnounceScript,
}

// Source returns the source of the script.
func (s Script) Source() string { return scripts[s].Source }

// Arg returns the position of an argument.
func (s Script) Arg(name string) int {
	for i, a := range scripts[s].Args {
		if a.Name == name {
			return i
		}
	}
	panic("testredis: script " + string(s) + " has no argument " + name)
}

// Request is what a script call requests of a node for one election.
type Request struct {
	Script Script
	Keys   []string // the lock's key first, except for ScriptAnnounce
	Args   []string
}

// Requests parses a command that a node receives, and returns one Request per election, in
// order, if the command runs one of the scripts: by its hash, or by its source if the node did
// not know the hash. It returns nil for any other command. The keys and arguments are slices
// of args.
func Requests(command string, args ...string) []Request {
	if len(args) < 2 || !strings.EqualFold(command, "EVALSHA") && !strings.EqualFold(command, "EVAL") {
		return nil
	}
	name, known := scriptOf(args[0])
	n, err := strconv.Atoi(args[1])
	if !known || err != nil || n < 0 || len(args) < 2+n {
		return nil
	}
	s, keys, argv := scripts[name], args[2:2+n], args[2+n:]
	k, a := len(s.Keys), len(s.Args)
	if n%k != 0 || len(argv) != n/k*a {
		return nil
	}
	var all []Request
	for ; len(keys) > 0; keys, argv = keys[k:], argv[a:] {
		all = append(all, Request{name, keys[:k], argv[:a]})
	}
	return all
}

// scriptOf recognizes a script by its hash or its source.
func scriptOf(sent string) (Script, bool) {
	for name, s := range scripts {
		if sent == s.Hash() || sent == s.Source {
			return name, true
		}
	}
	return "", false
}

// RefuseClaim answers a claim for one election as a node does while another candidate holds the lock for
// that much longer.
func RefuseClaim(p *server.Peer, holder string, left time.Duration) {
	p.Block(func(w *server.Writer) {
		w.WriteLen(1)
		w.WriteLen(6) // as answerLua of package protocol
		w.WriteBulk(string(protocol.Held) + " 0 ")
		w.WriteBulk(holder)
		w.WriteInt(int(left.Milliseconds()))
		w.WriteInt(-1)
		w.WriteBulk("")
		w.WriteBulk("")
		w.Flush()
	})
}
