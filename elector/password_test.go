package elector_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
)

// A password that is rotated under a leader which won with its very first claim costs the
// term, and not the process: the election had worked, so Run waits for the new password.
func TestPasswordRotatedUnderARunningElection(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.Start("a"), c.Start("b")
		_, term := first(t, 3*shortLease, a, b)
		time.Sleep(shortLease)
		for _, nd := range c.Nodes {
			nd.Server().RequireAuth("new")
			nd.Reset("") // CLIENT KILL
		}
		wantReason(t, term, shortLease, elector.ReasonExpired)
		time.Sleep(20 * shortLease)
		for _, x := range []*candidate{a, b} {
			select {
			case <-x.Done:
				t.Fatalf("%s: Run ended: %v", x.ID(), x.Result)
			default:
			}
			if err := x.Check(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
				t.Errorf("%s: Check: %v", x.ID(), err)
			}
			if n := len(x.Log.Lines("cannot campaign")); n != 1 {
				t.Errorf("%s: logged %d times", x.ID(), n)
			}
			if n := len(x.Log.Lines("")); n > 18+2*(1+3) { // two reminders of each
				t.Errorf("%s: the log floods: %d lines", x.ID(), n)
			}
		}
		for _, nd := range c.Nodes {
			nd.Server().RequireAuth("")
			nd.Reset("")
		}
		if _, next := first(t, shortLease, a, b); next.Token() <= term.Token() {
			t.Errorf("token %d after %d", next.Token(), term.Token())
		}
	})
}

// Run on a goroutine that nobody waits for: the log has the error that ends it, with what to do, and once. The end of
// its context is none.
func TestRunThatEndsSaysWhy(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		a.Elected(3 * shortLease)
		a.Shutdown()
		failing := makeCandidate(t, c.Quorum("f"), "f").Begin(func(context.Context, *elector.Term) error { return errors.New("disk full") })
		_ = failing.Ended(3 * shortLease)
		c.Nodes[0].Server().RequireAuth("new")
		denied := c.Start("d")
		_ = denied.Ended(shortLease)
		for x, want := range map[*candidate]string{a: "", failing: `error="disk full"`, denied: "give the password"} {
			lines := x.Log.Lines("level=ERROR")
			if want == "" && len(lines) == 0 {
				continue
			}
			if len(lines) != 1 || !strings.Contains(lines[0], `msg="run ended"`) || !strings.Contains(lines[0], want) {
				t.Errorf("%s logged %q, want %q", x.ID(), lines, want)
			}
		}
	})
}

// Regression: a password with a # or / in it was parsed as the port, and printed with the
// error.
func TestErrorsOfURLsShowNoPassword(t *testing.T) {
	for _, url := range []string{
		"redis://user:hunter2#x@h:6379", "redis://:hunter2/x@h:6379", "redis://user:hunter2?x@h:6379", "rediss://:hunter2%zz@h:6379",
		"redis://u:p@x?hunter2@h:6379", "redis://:p@1/hunter2@h", "redis://@?:hunter2@", "redis+cluster://u:p@x?db=hunter2@h", "unix://u:p@/tmp#hunter2@",
		"redis+sentinel://user:hunter2/x@h:6379", "redis://user:%hunter2@h",
	} {
		_, err := elector.Open(url)
		if err == nil {
			t.Errorf("%s was accepted", url)
			continue
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), "hunter") || strings.Contains(e.Error(), "%hu") || strings.Contains(e.Error(), "%zz") {
				t.Errorf("error %q shows (a part of) the password", e)
			}
		}
	}
}

func TestWrongPasswordEverywhere(t *testing.T) {
	for name, tc := range map[string]struct{ password, want string }{
		"none":  {"", "give the password"},
		"wrong": {"hunter2", "check user and password"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				var clients []redis.UniversalClient
				for i, nd := range c.Nodes {
					nd.Server().RequireAuth("secret")
					cl := c.Client("a", i)
					o := cl.Options()
					o.Password = tc.password
					defer cl.Close()
					clients = append(clients, cl)
				}
				q, err := elector.NewQuorum(clients...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { q.Close() })
				err = makeCandidate(t, q, "a").Begin(nil).Ended(time.Minute)
				if !errors.Is(err, elector.ErrPermanent) {
					t.Fatalf("Run returned %v", err)
				}
				if !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "127.0.0.1:7001") || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("error %q does not say what to fix, and where", err)
				}
			})
		})
	}
}
