package elector

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// NodeStatus is what one node knows of an election.
type NodeStatus struct {
	Node      string        `json:"node"`                           // its address
	Reachable bool          `json:"reachable"`                      // the node answered with what it knows
	Denied    bool          `json:"denied,omitempty"`               // it refused, because the Redis user lacks a right
	Answered  bool          `json:"answered,omitempty"`             // it is up, and Error is its answer
	Error     string        `json:"error,omitempty"`                // a NodeError's Problem
	Holder    string        `json:"holder,omitempty"`               // the candidate that holds this node's lock
	Foreign   string        `json:"foreign,omitempty"`              // the lock key and what it holds, where no candidate of this protocol wrote it; the node can't vote
	Protocol  int           `json:"protocol,omitempty"`             // of Holder's version, where that is another one than this program's
	LeaseLeft time.Duration `json:"-" ms:"lease_left_ms,omitempty"` // until Holder's lock expires there
	Fence     uint64        `json:"fence"`                          // the highest token that this node knows
	Abstains  time.Duration `json:"-" ms:"abstains_ms,omitempty"`   // the node is new or lost its data: it grants nothing for so long
	Identity  string        `json:"identity,omitempty"`             // the word that distinguishes the node's data from others; empty: no candidate has claimed there
	RTT       time.Duration `json:"-" ms:"rtt_ms"`                  // how long the answer took
	Lock      string        `json:"-"`                              // the value of the lock that Holder wrote
	Err       error         `json:"-"`                              // why it is not Reachable
	Jobs      []string      `json:"-"`                              // of Election.Look: the names of the jobs whose ticks it keeps, see package fence
	JobsErr   error         `json:"-"`                              // why these could not be read

	pause     string        // the note of a pause; empty: not paused
	pauseLeft time.Duration // 0: the pause has no end

	past    []string // the newest entries of the history, newest first
	pastErr error
}

// statusTimeout bounds Status when the caller's context does not.
const statusTimeout = 1500 * time.Millisecond

// noKey is what PTTL answers where there is no key.
const noKey = -2

// minReadWait is the minimum time that the other nodes get once a majority agrees:
// enough for a node that is only far away, short enough that the answers are not old.
const minReadWait = 250 * time.Millisecond

// more is what is asked of a node in the same round trip: commands, and what notes their answers, each of which has its own error.
type more func(ctx context.Context, k *protocol.Keys) (cmds []redis.Cmder, note func(*NodeStatus))

// readNodes queries all nodes at one moment for what they know of an election, and waits at most limit for each. Once
// a majority agrees on holder and pause, so that no other answer can change the leader, the other nodes get only a
// short time: waiting for one that hangs would make the answers old. But what is asked beside is that of all nodes: a
// history is reported as far as nodes are up, and one may have been down. Remaining times are as of the return. It
// writes nothing, and needs no right to write.
func readNodes(ctx context.Context, ns *nodes.Nodes, k *protocol.Keys, limit time.Duration, also more) []NodeStatus {
	sent, all, atLeast := time.Now(), make([]NodeStatus, ns.Len()), minReadWait
	if also != nil {
		atLeast = limit
	}
	query := func(ctx context.Context, n *nodes.Node) (NodeStatus, error) { return readNode(ctx, n, k, also) }
	agree := func(answers []nodes.Answer[NodeStatus]) bool { return agreement(answers, ns.Majority()) }
	for i, a := range nodes.Ask(ctx, ns, limit, atLeast, query, agree) {
		n := a.Value.after(time.Since(a.At))
		n.Node, n.Reachable, n.Err, n.RTT = ns.All()[i].Name, a.Err == nil, a.Err, a.At.Sub(sent)
		if a.Err != nil {
			n.Error, n.Denied, n.Answered = nodeErrors([]error{a.Err})[0].Problem(), rediserr.Denied(a.Err), rediserr.Answered(a.Err)
		}
		all[i] = n
	}
	return all
}

// agreement reports whether a majority agrees on the holder of the lock and on whether there is a pause.
func agreement(seen []nodes.Answer[NodeStatus], majority int) bool {
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

// readNode reads what a node knows of an election, by plain commands in one round
// trip: a script would need rights of its own (EVAL may write), and a user that only
// looks should need only rights to read. That is not one step, so the time comes first: if the lock changes hands before
// its value is read, what was left of the old lease is shown, which is less than the new one has. A node where an election is
// paused, or that is new or holds keys of another type, which MGET does not show, or that refuses MGET, is read by GET.
func readNode(ctx context.Context, n *nodes.Node, k *protocol.Keys, also more) (st NodeStatus, err error) {
	get := func(key string) *redis.StringCmd { return redis.NewStringCmd(ctx, "get", key) }
	left := func(key string) *redis.DurationCmd { return redis.NewDurationCmd(ctx, time.Millisecond, "pttl", key) }
	lockLeft, lock, fence, id := left(k.Lock), get(k.Lock), get(k.Fence), get(k.ID)
	newLeft, pauseLeft, pause := left(k.New), left(k.Pause), get(k.Pause)
	values := redis.NewSliceCmd(ctx, "mget", k.Lock, k.Fence, k.ID, k.New)
	keys, all := []redis.Cmder{lockLeft, lock, fence, id, newLeft, pauseLeft, pause}, []redis.Cmder{lockLeft, pauseLeft, values}
	note := func(*NodeStatus) {}
	if also != nil {
		var cmds []redis.Cmder
		cmds, note = also(ctx, k)
		all = append(all, cmds...)
	}
	read := func(cmds []redis.Cmder) error {
		_ = n.Do(ctx, cmds...) // each has its own error
		return ctx.Err()
	}
	switch err = read(all); {
	case err != nil:
	case values.Err() != nil && !rediserr.Answered(values.Err()):
		err = values.Err()
	case values.Err() != nil || pauseLeft.Val() != noKey || !known(values.Val(), lockLeft.Val(), lock, fence, id):
		err = read(keys)
	}
	if err != nil {
		return st, err
	}
	note(&st)
	if err := refusal(keys, lock); err != nil {
		return st, err
	}
	st.LeaseLeft, st.Abstains, st.Identity = positive(lockLeft), positive(newLeft), protocol.ParseIdentity(id.Val())
	st.pause, st.pauseLeft = pause.Val(), positive(pauseLeft)
	st.setLock(k.Lock, lock)
	if !rediserr.Missing(fence.Err()) {
		if st.Fence, err = strconv.ParseUint(fence.Val(), 10, 64); err != nil {
			return st, rediserr.ForeignKey(k.Fence, "holds no number")
		}
	}
	return st, nil
}

// known passes on what MGET and PTTL show, and reports whether that is all: not if the node has a marker of new ones, or if a
// key is missing, or of another type, that an election always has. The lock may be missing.
func known(values []any, lockLeft time.Duration, lock, fence, id *redis.StringCmd) bool {
	if len(values) != 4 { // as no Redis answers: one odd node must not end this process
		return false
	}
	for i, cmd := range []*redis.StringCmd{lock, fence, id} {
		text, ok := values[i].(string)
		if cmd.SetVal(text); !ok {
			cmd.SetErr(redis.Nil)
		}
	}
	return fence.Err() == nil && id.Err() == nil && (lock.Err() == nil || lockLeft == noKey) && values[3] == nil
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
		n.Holder, n.Protocol, n.Foreign = b.Candidate, int(other), key+" holds the lock of another version"
	case err != nil:
		n.Foreign = key + " holds the value " + protocol.Quoted(lock.Val()) + ", which no candidate wrote"
	default:
		n.Lock, n.Holder = lock.Val(), b.Candidate
	}
}

// refusal returns the first error of these commands, except for keys that do not exist. A key of another type is named
// in the error, as by the scripts, unless its command is lock.
func refusal(all []redis.Cmder, lock redis.Cmder) error {
	for _, cmd := range all {
		err, key := cmd.Err(), fmt.Sprint(cmd.Args()[1])
		switch {
		case err == nil, rediserr.Missing(err), rediserr.WrongType(err) && cmd == lock:
		case rediserr.WrongType(err):
			return rediserr.ForeignKey(key, "holds another type than a string")
		default:
			return rediserr.Needs(err, fmt.Sprintf("+%s %%R~%s", cmd.Name(), key))
		}
	}
	return nil
}

// positive returns the remaining time, or 0: Redis answers a negative number for a key that
// does not exist or has no end.
func positive(pttl *redis.DurationCmd) time.Duration { return max(0, pttl.Val()) }

// locksOf returns the locks that candidates wrote.
func locksOf(nodes []NodeStatus) (locks []protocol.Lock) {
	for _, n := range nodes {
		if n.Lock != "" {
			locks = append(locks, protocol.Lock{Value: n.Lock, Left: n.LeaseLeft})
		}
	}
	return locks
}

// pauseOf returns the value of the pause key, and for how long the pause still lasts; empty if no majority has one.
func pauseOf(nodes []NodeStatus, majority int) (note string, left time.Duration) {
	paused := 0
	for _, n := range nodes {
		if n.pause != "" {
			paused++
			note, left = n.pause, max(left, n.pauseLeft)
		}
	}
	if paused < majority {
		return "", 0
	}
	return note, left
}

// errorsOf returns the errors of the nodes that could not be read.
func errorsOf(nodes []NodeStatus) (errs []error) {
	for _, n := range nodes {
		if n.Err != nil {
			errs = append(errs, n.Err)
		}
	}
	return errs
}
