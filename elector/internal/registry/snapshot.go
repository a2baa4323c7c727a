package registry

import (
	"context"
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

// View is what one node knows of an election.
type View struct {
	Node      string
	Err       error         // not nil: nothing below is known
	Holder    string        // the lock value of the candidate that holds the lock
	Foreign   string        // describes the value of the lock key if no candidate wrote it
	Left      time.Duration // of the lock; 0: it has no end
	Fence     uint64
	Known     bool          // the node has a counter
	Newcomer  time.Duration // the node abstains for this long
	Paused    bool
	Pause     string        // the note of the pause
	PauseLeft time.Duration // 0: the pause has no end
	Next      string        // the incarnation that goes first after a release, or a Reservation
	ID        string        // the node's identity; empty: it has none yet
	RTT       time.Duration
}

// snapshotTries is how often a node is read at most if its lock changes hands during
// each read.
const snapshotTries = 3

// snapshot reads what a node knows of an election, by GET and PTTL in one round
// trip: a script would need rights of its own (EVAL may write), and a user that only
// looks should need only rights to read. A pipeline is not atomic, so the lock is read
// before and after its remaining time. A lock value never returns once another has
// replaced it: if both reads agree, the time belongs to that value.
func snapshot(ctx context.Context, n *quorum.Node, k protocol.Keys) (View, error) {
	for range snapshotTries {
		p := n.Client().Pipeline()
		get := func(key string) *redis.StringCmd { return p.Get(ctx, key) }
		before, lockLeft, lock := get(k.Lock), p.PTTL(ctx, k.Lock), get(k.Lock)
		fence, next, id := get(k.Fence), get(k.Heir), get(k.ID)
		newLeft := p.PTTL(ctx, k.New)
		pauseLeft, pause := p.PTTL(ctx, k.Pause), get(k.Pause)
		if err := execute(ctx, p, before, lock); err != nil {
			return View{}, err
		}
		if before.Val() != lock.Val() {
			continue
		}
		v := View{
			Holder: lock.Val(), Foreign: foreignLock(lock), Left: positive(lockLeft), Newcomer: positive(newLeft), Next: next.Val(),
			Paused: pause.Val() != "", Pause: pause.Val(), PauseLeft: positive(pauseLeft),
			ID: protocol.ParseIdentity(id.Val()),
		}
		if v.Foreign != "" {
			v.Holder = "" // it must never be mistaken for a candidate
		}
		if v.Known = !rediserr.Missing(fence.Err()); v.Known {
			var err error
			if v.Fence, err = strconv.ParseUint(fence.Val(), 10, 64); err != nil {
				return View{}, rediserr.ForeignKey(k.Fence, "holds no number")
			}
		}
		return v, nil
	}
	return View{}, fmt.Errorf("the lock changed hands during each of %d reads", snapshotTries)
}

const anotherType = "a value of another type than a string"

// foreignLock describes the value of a lock key that no candidate wrote: another
// program's, or one that was set by hand. Empty: there is no value, or it is a lock.
func foreignLock(lock *redis.StringCmd) string {
	switch {
	case rediserr.Missing(lock.Err()):
		return ""
	case lock.Err() != nil: // of another type; any other error is in View.Err
		return anotherType
	}
	if _, err := protocol.ParseLockValue(lock.Val()); err == nil {
		return ""
	}
	return fmt.Sprintf("the value %s", protocol.Quoted(lock.Val()))
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
