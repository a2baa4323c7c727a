package elector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// minReadWait is the minimum time that the other nodes get once a majority agrees:
// enough for a node that is only far away, short enough that the answers are not old.
const minReadWait = 250 * time.Millisecond

// readNodes queries all nodes for what they know of an election, and waits at most limit for
// each. Once a majority agrees on holder and pause, so that no other answer can change
// the leader, the other nodes get only a short time: waiting for one that hangs would
// make the answers old. Remaining times are as of the return. It writes nothing, needs
// no right to write, and waits in no queue.
func readNodes(ctx context.Context, nodes *quorum.Nodes, k *protocol.Keys, limit time.Duration) []NodeStatus {
	sent, all := time.Now(), make([]NodeStatus, nodes.Len())
	query := func(ctx context.Context, n *quorum.Node) (NodeStatus, error) { return readNode(ctx, n, k) }
	agree := func(answers []quorum.Answer[NodeStatus]) bool { return agreement(answers, nodes.Majority()) }
	for i, a := range quorum.Ask(ctx, nodes, limit, minReadWait, query, agree) {
		n := a.Value.after(time.Since(a.At))
		n.Node, n.Reachable, n.Err, n.RTT = nodes.All()[i].Name, a.Err == nil, a.Err, a.At.Sub(sent)
		if a.Err != nil {
			n.Error, n.Denied, n.Answered = nodeErrors([]error{a.Err})[0].Problem, rediserr.Denied(a.Err), rediserr.Answered(a.Err)
		}
		all[i] = n
	}
	return all
}

// agreement reports whether a majority agrees on the holder of the lock and on whether there is a pause.
func agreement(seen []quorum.Answer[NodeStatus], majority int) bool {
	type opinion struct {
		attempt string
		paused  bool
	}
	count := map[opinion]int{}
	for _, a := range seen {
		if a.Err != nil {
			continue
		}
		_, attempt := protocol.AttemptOf(a.Value.Lock)
		o := opinion{attempt + a.Value.Foreign, a.Value.pause != ""}
		if count[o]++; count[o] >= majority {
			return true
		}
	}
	return false
}

// after returns what the node knows, with its remaining times reduced by the time since the answer.
func (n NodeStatus) after(age time.Duration) NodeStatus {
	n.LeaseLeft, n.Abstains = max(0, n.LeaseLeft-age), max(0, n.Abstains-age)
	if n.pauseLeft > 0 { // 0 would mean that the pause has no end
		n.pauseLeft = max(time.Millisecond, n.pauseLeft-age)
	}
	return n
}

// readTries is how often a node is read at most if its lock changes hands during
// each read.
const readTries = 3

// readNode reads what a node knows of an election, by GET and PTTL in one round
// trip: a script would need rights of its own (EVAL may write), and a user that only
// looks should need only rights to read. A pipeline is not atomic, so the lock is read
// before and after its remaining time. A lock value never returns once another has
// replaced it: if both reads agree, the time belongs to that value.
func readNode(ctx context.Context, n *quorum.Node, k *protocol.Keys) (NodeStatus, error) {
	for range readTries {
		p := n.Client().Pipeline()
		get := func(key string) *redis.StringCmd { return p.Get(ctx, key) }
		before, lockLeft, lock := get(k.Lock), p.PTTL(ctx, k.Lock), get(k.Lock)
		fence, id, newLeft := get(k.Fence), get(k.ID), p.PTTL(ctx, k.New)
		pauseLeft, pause := p.PTTL(ctx, k.Pause), get(k.Pause)
		if err := execute(ctx, p, before, lock); err != nil {
			return NodeStatus{}, err
		}
		if before.Val() != lock.Val() {
			continue
		}
		st := NodeStatus{
			LeaseLeft: positive(lockLeft), Abstains: positive(newLeft), Identity: protocol.ParseIdentity(id.Val()),
			pause: pause.Val(), pauseLeft: positive(pauseLeft),
		}
		st.setLock(k.Lock, lock)
		if rediserr.Missing(fence.Err()) {
			return st, nil
		}
		var err error
		if st.Fence, err = strconv.ParseUint(fence.Val(), 10, 64); err != nil {
			return NodeStatus{}, rediserr.ForeignKey(k.Fence, "holds no number")
		}
		return st, nil
	}
	return NodeStatus{}, fmt.Errorf("the lock changed hands during each of %d reads", readTries)
}

// setLock notes the value of the lock key: a candidate's lock, or one that no candidate wrote, as
// another program's or one set by hand, which must never be mistaken for a candidate's.
func (n *NodeStatus) setLock(key string, lock *redis.StringCmd) {
	other := protocol.OtherVersion(0)
	switch b, err := protocol.ParseLockValue(lock.Val()); {
	case rediserr.Missing(lock.Err()):
	case lock.Err() != nil: // any other error is that of the pipeline
		n.Foreign = key + " holds a value of another type than a string, which no candidate wrote"
	case errors.As(err, &other):
		n.Foreign = key + " holds the lock of another version: " + other.Error()
	case err != nil:
		n.Foreign = key + " holds the value " + protocol.Quoted(lock.Val()) + ", which no candidate wrote"
	default:
		n.Lock, n.Holder = lock.Val(), b.Candidate
	}
}

// execute sends a pipeline and returns the first error, except for keys that do not
// exist. A key of another type is named in the error, as by the scripts, unless its
// command is in handled.
func execute(ctx context.Context, p redis.Pipeliner, handled ...redis.Cmder) error {
	cmds, failed := p.Exec(ctx)
	for _, cmd := range cmds {
		err := cmd.Err()
		if err == nil || rediserr.Missing(err) {
			continue
		}
		if otherType(err) {
			if slices.Contains(handled, cmd) {
				continue
			}
			return rediserr.ForeignKey(fmt.Sprint(cmd.Args()[1]), "holds another type than a string")
		}
		return rediserr.Needs(err, fmt.Sprintf("+%s %%R~%v", cmd.Name(), cmd.Args()[1]))
	}
	if rediserr.Missing(failed) || otherType(failed) {
		return nil
	}
	return failed // nothing was sent: no connection could be made
}

func otherType(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }

// positive returns the remaining time, or 0: Redis answers a negative number for a key that
// does not exist or has no end.
func positive(pttl *redis.DurationCmd) time.Duration { return max(0, pttl.Val()) }

// recall reads the newest count events of the history stream from every node, newest first. It waits at
// most limit for each; once a majority has answered, the other nodes get at least atLeast. The streams
// differ: reports are best effort, and a node may have been down.
func (el *Election) recall(ctx context.Context, count int, limit, atLeast time.Duration) ([][]string, []error) {
	query := func(ctx context.Context, n *quorum.Node) (entries []string, err error) {
		found, err := n.Client().XRevRangeN(ctx, el.keys.History, "+", "-", int64(count)).Result()
		for _, e := range found {
			if s, ok := e.Values["event"].(string); ok {
				entries = append(entries, s)
			}
		}
		return entries, rediserr.Needs(err, "+xrevrange %R~"+el.keys.History)
	}
	found, errs := make([][]string, el.nodes.Len()), make([]error, el.nodes.Len())
	for i, a := range quorum.Ask(ctx, el.nodes, limit, atLeast, query, quorum.Majority[[]string](el.nodes)) {
		found[i], errs[i] = a.Value, a.Err
	}
	return found, errs
}
