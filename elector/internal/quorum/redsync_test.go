package quorum

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-redsync/redsync/v4/redis"
)

func TestLinkedRedsyncWorks(t *testing.T) {
	for range 200 { // its goroutines come in any order
		if err := redsyncWorks(func() redlock { return newRedlock(3, "key", "value", time.Minute) }); err != nil {
			t.Fatal(err)
		}
	}
}

// strange is a version of redsync that does things in another way.
type strange struct {
	claim func(context.Context) error
}

func (s strange) TryLockContext(ctx context.Context) error { return s.claim(ctx) }

// A redsync that can't work is noticed before anything depends on it; one that merely has
// other scripts, or sends them in place of SET NX, works.
func TestStrangeRedsync(t *testing.T) {
	// onAll operates on the connection of every node.
	onAll := func(op func(redis.Conn) (bool, error)) func(context.Context) error {
		return func(ctx context.Context) error {
			yes := 0
			for i := range 3 {
				c, err := pool{node: i}.Get(ctx)
				if err != nil {
					return err
				}
				ok, err := op(c)
				if err != nil {
					return err
				}
				if ok {
					yes++
				}
			}
			if yes < 2 {
				return errors.New("taken")
			}
			return nil
		}
	}
	eval := onAll(func(c redis.Conn) (bool, error) {
		got, err := c.Eval(redis.NewScript(1, "return 'some other script'", "hash"), "key", "value")
		return got == int64(1), err
	})
	setNX := onAll(func(c redis.Conn) (bool, error) { return c.SetNX("key", "value", time.Minute) })
	cleaning := func(ctx context.Context) error {
		err := setNX(ctx)
		if err != nil {
			_ = eval(ctx)
		}
		return err
	}
	get := onAll(func(c redis.Conn) (bool, error) { s, err := c.Get("key"); return s == "value", err })
	nothing := func(context.Context) error { return nil }
	outside := func(context.Context) error { return eval(context.Background()) }

	for name, c := range map[string]struct {
		s    strange
		want string // "": it works
	}{
		"as it is":               {s: strange{cleaning}},
		"a script for the claim": {s: strange{eval}},
		"without a clean-up":     {s: strange{setNX}},
		"a claim that looks first": {s: strange{get},
			want: "claim: quorum: redsync is not expected to call this"},
		"a claim that asks nobody": {s: strange{nothing}, want: "claim: node 1 is asked 0 times"},
		"a context of its own":     {s: strange{outside}, want: "outside of a round"},
		"a claim that always wins": {s: strange{func(ctx context.Context) error { _ = setNX(ctx); return nil }},
			want: "claim that is lost: it is taken for won"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := redsyncWorks(func() redlock { return redlock{c.s} })
				switch {
				case c.want == "" && err != nil:
					t.Error(err)
				case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
					t.Errorf("%v, want %q", err, c.want)
				}
			})
		})
	}
}
