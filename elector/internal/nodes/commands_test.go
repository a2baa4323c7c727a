package nodes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Requests that meet travel together, each gets its own answer, and a node that hangs delays all of
// them once. One that has been given up is not sent: it would be obeyed later.
func TestRequestsThatMeetTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		odd := errors.New("odd")
		var calls []int
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaintNotificationsConfig: NoMaintenance()})
		defer rdb.Close()
		rdb.AddHook(pipelines(func(all []redis.Cmder) {
			calls = append(calls, len(all)) // one call at a time: no mutex
			time.Sleep(commandsOverdue / 2)
			for _, cmd := range all {
				if q, _ := cmd.Args()[0].(int); q%2 == 1 {
					cmd.SetErr(odd)
				}
			}
		}))
		c := newCommands(&Node{rdb: rdb, open: &leaving{}})
		var wg sync.WaitGroup
		ask := func(q int, patience time.Duration, want error) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := c.do(ctx, redis.NewCmd(ctx, q)); !errors.Is(err, want) {
					t.Errorf("%d: %v", q, err)
				}
			})
		}
		began := time.Now()
		ask(0, time.Minute, nil)
		synctest.Wait()
		for q := range MaxBatch + 44 {
			want := error(nil)
			if q%2 == 1 {
				want = odd
			}
			ask(q, time.Minute, want)
		}
		ask(2, 10*time.Millisecond, context.DeadlineExceeded)
		wg.Wait()
		sum := 0
		for _, c := range calls {
			sum += c
		}
		if took := time.Since(began); took != 3*commandsOverdue/2 || len(calls) != 3 || slices.Max(calls) > MaxBatch || sum != 1+MaxBatch+44 {
			t.Errorf("%v: calls for %v requests", took, calls)
		}
	})
}

// A node that refuses the login has answered none of the commands: what they would return without an error would
// pass for the values of keys.
func TestCommandsFailWithTheLogin(t *testing.T) {
	wrong := func(o *redis.Options) { o.Password = "wrong" }
	bubble(t, func(t *testing.T, n *Node, m *miniredis.Miniredis) {
		m.RequireAuth("right")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		lock, left := redis.NewStringCmd(ctx, "get", "lock"), redis.NewDurationCmd(ctx, time.Millisecond, "pttl", "lock")
		for _, err := range []error{n.Do(ctx, lock, left), lock.Err(), left.Err()} {
			if err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
				t.Errorf("%v", err)
			}
		}
	}, wrong)
}

// pipelines answers the pipelines of a client.
type pipelines func([]redis.Cmder)

func (pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

func (pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (f pipelines) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, all []redis.Cmder) error {
		f(all)
		return nil
	}
}
