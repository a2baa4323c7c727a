package elector_test

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// What the nodes of a cluster see: every call of a script, before it runs.

// call is one script call as a node received it.
type call struct {
	script string
	args   []string
	at     time.Time
}

func (c call) from(id string) bool {
	return slices.ContainsFunc(c.args, func(a string) bool { return strings.HasPrefix(a, id+"/") })
}

// before sees every command before it runs; those that scripts issue, too.
func (n *node) before(p *server.Peer, cmd string, args ...string) bool {
	n.mu.Lock()
	answer, hook, nested := n.answer, n.hook, n.own == p
	var c call
	switch cmd {
	case "HELLO": // first on a connection; a script has none
		if n.clients == nil {
			n.clients = map[*server.Peer]bool{}
		}
		n.clients[p] = true
		n.asked++
	case "PTTL": // of the lock: once in the pipeline that reads an election
		if n.clients[p] && strings.HasSuffix(args[0], ":lock") {
			n.asked++
			n.calls = append(n.calls, call{script: "read", at: time.Now()})
		}
	case "GET":
		if n.clients[p] && strings.HasSuffix(args[0], ":pause") { // last in that pipeline
			c = call{script: "looked", at: time.Now()}
		}
	case "SET", "DEL", "PEXPIRE", "TIME", "PUBLISH", "PUBSUB", "XADD": // what else only our scripts use
	default:
		n.asked++
	}
	if (cmd == "EVALSHA" || cmd == "EVAL") && len(args) > 0 && !nested {
		s, _ := quorum.ScriptOf(args[0])
		c = call{script: string(s), args: args[1:], at: time.Now()}
		if answer == "" {
			n.calls = append(n.calls, c)
		}
	}
	n.mu.Unlock()
	switch {
	case nested:
		return false
	case answer != "":
		p.WriteError(answer)
		return true
	case c.script != "" && hook != nil:
		return hook(c, p)
	}
	return false
}

// run executes a call without sending its answer: for hooks.
func (n *node) run(c call) {
	src := quorum.Script(c.script).Source()
	p := server.NewPeer(bufio.NewWriter(io.Discard))
	n.mu.Lock()
	n.own = p
	n.mu.Unlock()
	n.server().Server().Dispatch(p, append([]string{"EVAL", src}, c.args...))
	n.mu.Lock()
	n.own = nil
	n.mu.Unlock()
}

func (n *node) on(hook func(call, *server.Peer) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hook = hook
}

// say makes every answer an error; "" ends it.
func (n *node) say(err string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = err
}

// took returns the calls since the last take.
func (n *node) took() []call {
	n.mu.Lock()
	defer n.mu.Unlock()
	calls := n.calls
	n.calls = nil
	return calls
}

func (n *node) requests() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

// loseReply makes the node execute the next calls of a script without answering.
func (n *node) loseReply(script string, times int) {
	n.on(func(cl call, p *server.Peer) bool {
		if cl.script != script || times == 0 {
			return false
		}
		times--
		n.run(cl)
		p.Close()
		return true
	})
}
