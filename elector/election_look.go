package elector

import (
	"cmp"
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

// look is Status with so many of the newest entries of the history: all that is shown of one moment comes from one look.
func (el *Election) look(ctx context.Context, entries int) (Status, error) {
	if err := checkOpen(el.nodes); err != nil {
		return Status{Election: el.name}, err
	}
	st := summarize(el.name, readNodes(ctx, el.nodes, &el.keys, statusTimeout, entries), el.nodes.Majority())
	if errs := errorsOf(st.Nodes); len(st.Nodes)-len(errs) < el.nodes.Majority() {
		return st, noMajority(el.nodes.Len(), errs)
	}
	return st, nil
}

// noKey is what PTTL answers where there is no key.
const noKey = -2

// minReadWait is the minimum time that the other nodes get once a majority agrees:
// enough for a node that is only far away, short enough that the answers are not old.
const minReadWait = 250 * time.Millisecond

// readNodes queries all nodes at one moment for what they know of an election, with so many of the newest entries of
// its history, and waits at most limit for each. Once a majority agrees on holder and pause, so that no other answer
// can change the leader, the other nodes get only a short time: waiting for one that hangs would
// make the answers old. But a history is that of all nodes: reports are best effort, and a node may have been down.
// Remaining times are as of the return. It writes nothing, and needs no right to write.
func readNodes(ctx context.Context, ns *nodes.Nodes, k *protocol.Keys, limit time.Duration, entries int) []NodeStatus {
	sent, all, atLeast := time.Now(), make([]NodeStatus, ns.Len()), minReadWait
	if entries > 0 {
		atLeast = limit
	}
	query := func(ctx context.Context, n *nodes.Node) (NodeStatus, error) { return readNode(ctx, n, k, entries) }
	agree := func(answers []nodes.Answer[NodeStatus]) bool { return agreement(answers, ns.Majority()) }
	for i, a := range nodes.Ask(ctx, ns, limit, atLeast, query, agree) {
		n := a.Value.after(time.Since(a.At))
		n.Node, n.Reachable, n.Err, n.RTT = ns.All()[i].Name, a.Err == nil, a.Err, a.At.Sub(sent)
		n.pastErr = ns.NodeError(i, n.pastErr)
		if a.Err != nil {
			n.Error, n.Denied, n.Answered = nodeErrors([]error{a.Err})[0].Problem(), rediserr.Denied(a.Err), rediserr.Answered(a.Err)
			if n.past == nil {
				n.pastErr = cmp.Or(n.pastErr, a.Err)
			}
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
func readNode(ctx context.Context, n *nodes.Node, k *protocol.Keys, entries int) (st NodeStatus, err error) {
	get := func(key string) *redis.StringCmd { return redis.NewStringCmd(ctx, "get", key) }
	left := func(key string) *redis.DurationCmd { return redis.NewDurationCmd(ctx, time.Millisecond, "pttl", key) }
	lockLeft, lock, fence, id := left(k.Lock), get(k.Lock), get(k.Fence), get(k.ID)
	newLeft, pauseLeft, pause := left(k.New), left(k.Pause), get(k.Pause)
	values := redis.NewSliceCmd(ctx, "mget", k.Lock, k.Fence, k.ID, k.New)
	past := redis.NewXMessageSliceCmd(ctx, "xrevrange", k.History, "+", "-", "count", entries)
	keys, all := []redis.Cmder{lockLeft, lock, fence, id, newLeft, pauseLeft, pause}, []redis.Cmder{lockLeft, pauseLeft, values}
	if entries > 0 {
		all = append(all, past)
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
	if st.pastErr = rediserr.Needs(past.Err(), "+xrevrange %R~"+k.History); rediserr.WrongType(past.Err()) {
		st.pastErr = rediserr.ForeignKey(k.History, "holds another type than a stream")
	}
	for _, e := range past.Val() {
		text, _ := e.Values["event"].(string) // empty: of another program; it counts, since others were cut off for it
		st.past = append(st.past, text)
	}
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
