package quorum

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// snapshotTries bounds how often a node is read anew because its lock changed
// hands while it was read.
const snapshotTries = 3

// snapshot reads what a node knows of an election, by GET and PTTL in one round
// trip: a script would need rights of its own (EVAL may write), and who only looks
// should need none but to read. A pipeline is not atomic, so the lock is read
// before and after its remaining time. A lock's value never comes back once another
// has taken its place: when both agree, the time belongs to it.
func (n *Node) snapshot(ctx context.Context, k Keys) (View, error) {
	for range snapshotTries {
		p := n.rdb.Pipeline()
		get := func(key string) *redis.StringCmd { return p.Get(ctx, key) }
		before, lockLeft, lock := get(k.Lock), p.PTTL(ctx, k.Lock), get(k.Lock)
		fence, next, id := get(k.Fence), get(k.Next), get(k.ID)
		newLeft := p.PTTL(ctx, k.New)
		pauseLeft, pause := p.PTTL(ctx, k.Pause), get(k.Pause)
		if err := execute(ctx, p); err != nil {
			return View{}, err
		}
		if before.Val() != lock.Val() {
			continue
		}
		v := View{
			Holder: lock.Val(), Left: positive(lockLeft), Newcomer: positive(newLeft), Next: next.Val(),
			Paused: pause.Val() != "", Pause: pause.Val(), PauseLeft: positive(pauseLeft),
			ID: parseIdentity(id.Val()),
		}
		if v.Known = !errors.Is(fence.Err(), redis.Nil); v.Known {
			var err error
			if v.Fence, err = strconv.ParseUint(fence.Val(), 10, 64); err != nil {
				return View{}, fmt.Errorf("MANDATE key %s holds no number", k.Fence)
			}
		}
		return v, nil
	}
	return View{}, fmt.Errorf("the lock changed hands during each of %d reads", snapshotTries)
}

// execute sends a pipeline, and returns what went wrong, but for keys that are not
// there. A key of another type is named, as the scripts do it.
func execute(ctx context.Context, p redis.Pipeliner) error {
	cmds, failed := p.Exec(ctx)
	for _, cmd := range cmds {
		err := cmd.Err()
		if err == nil || errors.Is(err, redis.Nil) {
			continue
		}
		if strings.HasPrefix(err.Error(), "WRONGTYPE") {
			return fmt.Errorf("MANDATE key %v holds another type than a string", cmd.Args()[1])
		}
		return needs(err, fmt.Sprintf("+%s %%R~%v", cmd.Name(), cmd.Args()[1]))
	}
	if errors.Is(failed, redis.Nil) {
		return nil
	}
	return failed // no command was sent: a connection could not be made
}

// positive is what is left; Redis tells below zero of a key that is not there, or
// has no end.
func positive(pttl *redis.DurationCmd) time.Duration { return max(0, pttl.Val()) }
