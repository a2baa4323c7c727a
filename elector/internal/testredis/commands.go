package testredis

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// Call is one script call that a node received. Script is the script's name; "read" and "looked"
// stand for the first and the last command of the pipeline that reads an election.
type Call struct {
	Script string
	Args   []string
	At     time.Time
}

// From reports whether the lock value of a candidate is among the arguments.
func (c Call) From(id string) bool {
	return slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, id+"/") })
}

// before is called with every command before it runs, including those that scripts issue. It
// returns true if it has answered the command.
func (n *Node) before(p *server.Peer, cmd string, args ...string) bool {
	n.mu.Lock()
	answer, hook, nested := n.answer, n.hook, n.own == p
	denial := n.denial(p, cmd, args)
	var c Call
	switch cmd {
	case "HELLO": // the first command on a client's connection; a script never sends it
		n.clients[p] = true
		n.asked++
	case "PTTL": // of the lock: once in each pipeline that reads an election
		if n.clients[p] && strings.HasSuffix(args[0], ":lock") {
			n.asked++
			n.calls = append(n.calls, Call{Script: "read", At: time.Now()})
		}
	case "GET":
		if n.clients[p] && strings.HasSuffix(args[0], ":pause") { // the last command of that pipeline
			c = Call{Script: "looked", At: time.Now()}
		}
	case "SET", "DEL", "PEXPIRE", "TIME", "PUBLISH", "PUBSUB", "XADD", "ZADD", "ZREMRANGEBYSCORE": // mostly the project's scripts
		if n.clients[p] {
			n.asked++
		}
	default:
		n.asked++
	}
	if (cmd == "EVALSHA" || cmd == "EVAL") && len(args) > 0 && !nested {
		script, _ := scriptOf(args[0])
		c = Call{Script: string(script), Args: args[1:], At: time.Now()}
		if answer == "" {
			n.calls = append(n.calls, c)
		}
	}
	slow, replica := n.slow, n.replica
	n.mu.Unlock()
	if cmd == "PUBLISH" && replica != nil {
		replica.Publish(args[0], args[1])
	}
	if cmd == "SUBSCRIBE" {
		time.Sleep(slow)
	}
	switch {
	case denial != "":
		p.WriteError(denial)
		return true
	case nested:
		return false
	case answer != "":
		p.WriteError(answer)
		return true
	case c.Script != "" && hook != nil:
		return hook(c, p)
	}
	return false
}

// Run executes a call and drops its answer. It is for hooks.
func (n *Node) Run(c Call) {
	src := Script(c.Script).Source()
	p := server.NewPeer(bufio.NewWriter(io.Discard))
	n.locked(func() { n.own = p })
	n.Server().Server().Dispatch(p, append([]string{"EVAL", src}, c.Args...))
	n.locked(func() { n.own = nil })
}

// RunAt executes a call on another node, whose answer the client gets.
func (n *Node) RunAt(to *Node, c Call, p *server.Peer) {
	to.Server().Server().Dispatch(p, append([]string{"EVAL", Script(c.Script).Source()}, c.Args...))
}

// On sets a hook, which is called with every call before it runs. If the hook returns true, it has
// handled the call, which is then not run.
func (n *Node) On(hook func(Call, *server.Peer) bool) { n.locked(func() { n.hook = hook }) }

// RefuseWith makes the node answer every command with the error; "" ends this.
func (n *Node) RefuseWith(err string) { n.locked(func() { n.answer = err }) }

// Deny makes the node refuse commands, such as "xadd" or "pubsub|numsub", from all users and
// from scripts, as the ACL of a Redis 7.0 does. Without commands it denies nothing any more.
func (n *Node) Deny(commands ...string) { n.locked(func() { n.denied = commands }) }

// SubscribeSlowly makes each SUBSCRIBE take that long.
func (n *Node) SubscribeSlowly(d time.Duration) { n.locked(func() { n.slow = d }) }

// Fill makes the node refuse new values because its memory is full, as maxmemory with noeviction
// does: reads, later expiries and deletions still work. A script that has already written may
// continue to write.
func (n *Node) Fill(full bool) { n.locked(func() { n.full = full }) }

// denial returns the server's error for a command that must not run; "": it may.
func (n *Node) denial(p *server.Peer, cmd string, args []string) string {
	name := strings.ToLower(cmd)
	if n.readOnly && slices.Contains([]string{"set", "del", "pexpire", "xadd", "zadd"}, name) {
		return "READONLY You can't write against a read only replica."
	}
	switch script := !n.clients[p]; {
	case strings.HasPrefix(name, "eval"):
		n.wrote = false
	case !n.full || name != "set" && name != "xadd" && name != "zadd":
		n.wrote = n.wrote || script && (name == "pexpire" || name == "del")
	case name == "set" && script && n.wrote:
	default:
		return "OOM command not allowed when used memory > 'maxmemory'."
	}
	if !slices.Contains(n.denied, name) && len(args) > 0 {
		name += "|" + strings.ToLower(args[0])
	}
	switch {
	case !slices.Contains(n.denied, name):
		return ""
	case !n.clients[p]: // a script
		return "ERR The user executing the script can't run this command or subcommand"
	default:
		return "NOPERM this user has no permissions to run the '" + name + "' command"
	}
}

// Took returns the calls since the last Took or TookOf.
func (n *Node) Took() (calls []Call) {
	n.locked(func() { calls, n.calls = n.calls, nil })
	return calls
}

// TookOf counts the calls of one script among those that Took returns.
func (n *Node) TookOf(script string) (count int) {
	return len(slices.DeleteFunc(n.Took(), func(c Call) bool { return c.Script != script }))
}

// Requests returns how many commands clients have sent.
func (n *Node) Requests() (asked int) {
	n.locked(func() { asked = n.asked })
	return asked
}
