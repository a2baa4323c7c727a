package lease_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

func timing(l time.Duration) lease.Timing {
	return lease.Timing{Lease: l, StopMargin: l / 4}
}

func TestTimingAtItsBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		timing lease.Timing
		want   []string // a part of every problem, none when it is fine
	}{
		"default":            {timing(10 * time.Second), nil},
		"shortest":           {timing(lease.MinLease), nil},
		"longest":            {timing(lease.MaxLease), nil},
		"too short":          {timing(49 * time.Millisecond), []string{"Lease is 49ms: choose between 50ms and 24h0m0s"}},
		"much too short":     {timing(4 * time.Millisecond), []string{"Lease is 4ms"}}, // and no talk of renewals
		"too long":           {timing(24*time.Hour + time.Millisecond), []string{"Lease is 24h0m0.001s"}},
		"odd milliseconds":   {timing(1001 * time.Millisecond), nil},
		"zero":               {lease.Timing{}, []string{"Lease is 0s"}},
		"fraction of a ms":   {timing(1000500 * time.Microsecond), []string{"whole milliseconds"}},
		"negative margin":    {lease.Timing{Lease: time.Second, StopMargin: -1}, []string{"StopMargin is -1ns"}},
		"just two renewals":  {lease.Timing{Lease: time.Second, StopMargin: 488 * time.Millisecond}, nil},
		"not quite two":      {lease.Timing{Lease: time.Second, StopMargin: 488*time.Millisecond + 1}, []string{"two renewals"}},
		"margin eats it all": {lease.Timing{Lease: time.Second, StopMargin: time.Second}, []string{"two renewals"}},
	} {
		t.Run(name, func(t *testing.T) {
			problems := tc.timing.Problems()
			if len(problems) != len(tc.want) {
				t.Fatalf("problems %v, want %d", problems, len(tc.want))
			}
			for i, want := range tc.want {
				if !strings.Contains(problems[i].Error(), want) {
					t.Errorf("problem %q does not say %q", problems[i], want)
				}
			}
		})
	}
}

// The allowance of 1 % + 2 ms is what all documents promise; the other shares keep
// a hung request from standing in the way of the next one.
func TestTimingIsTheDocumentedOne(t *testing.T) {
	const ms = time.Millisecond
	for l, want := range map[time.Duration]struct{ end, deadline, call, retry time.Duration }{
		10 * time.Second: {9898 * ms, 7398 * ms, 2000 * ms, 625 * ms},
		time.Second:      {988 * ms, 738 * ms, 200 * ms, 62500 * time.Microsecond},
		100 * ms:         {97 * ms, 72 * ms, 20 * ms, 6250 * time.Microsecond},
	} {
		tm := timing(l)
		if tm.End() != want.end || tm.Deadline() != want.deadline || tm.CallTimeout() != want.call || tm.RetryEvery() != want.retry {
			t.Errorf("lease %v: end %v, deadline %v, call %v, retry %v, want %v", l, tm.End(), tm.Deadline(), tm.CallTimeout(), tm.RetryEvery(), want)
		}
	}
}

// The order that safety rests on: told to stop < lease ends here < key expires in Redis.
func TestDeadlineBeforeEndBeforeExpiry(t *testing.T) {
	for _, l := range []time.Duration{lease.MinLease, time.Second, 10 * time.Second, time.Hour} {
		tm := timing(l)
		if !(tm.Deadline() < tm.End() && tm.End() < tm.Lease) {
			t.Errorf("lease %v: deadline %v, end %v", l, tm.Deadline(), tm.End())
		}
		if tm.CallTimeout() >= tm.RenewEvery() {
			t.Errorf("lease %v: a call may outlast the renewal interval", l)
		}
		if got := tm.Lease - tm.End(); got != tm.Drift() || got < l/100 {
			t.Errorf("lease %v: drift allowance %v", l, got)
		}
	}
}

func TestGrantEndsByTheClockAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, tm := lease.NewClock(new(lease.Warp)), timing(time.Second)
		g := lease.NewGrant(c, tm, c.Now())
		time.Sleep(tm.Deadline() - 1)
		if !g.Valid() {
			t.Fatal("ended before its deadline")
		}
		sent := c.Now()
		if !g.Renew(sent) {
			t.Fatal("a renewal in time was refused")
		}
		time.Sleep(tm.Deadline())
		if g.Valid() {
			t.Fatal("valid at its deadline")
		}
		if g.Renew(c.Now()) || g.Valid() {
			t.Fatal("an ended lease revived")
		}
		if d, e := g.Left(); d != 0 || e != tm.StopMargin {
			t.Fatalf("left %v and %v, want 0 and the stop margin", d, e)
		}
		time.Sleep(tm.StopMargin + 1)
		if d, e := g.Left(); d != 0 || e != 0 {
			t.Fatalf("left %v and %v of an ended lease", d, e)
		}
	})
}

func TestAnchorIsTheRequestNotTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, tm := lease.NewClock(new(lease.Warp)), timing(time.Second)
		sent := c.Now()
		time.Sleep(tm.Deadline() - time.Millisecond) // a slow answer
		g := lease.NewGrant(c, tm, sent)
		time.Sleep(time.Millisecond)
		if g.Valid() {
			t.Fatal("the time that the answer took was given away")
		}
	})
}
