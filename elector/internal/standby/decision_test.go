package standby

import (
	"hash/maphash"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

var keys = protocol.KeysOf("mandate", "orders")

// follower has claimed, and saw the term 7.
func follower(nodes int) *decision {
	const lease = 10 * time.Second
	return &decision{
		Settings: Settings{Incarnation: "me", Majority: nodes/2 + 1, Lease: lease, RetryEvery: lease / 16, ReservedFor: lease / 4},
		seed:     maphash.MakeSeed(), token: 7,
	}
}

// When to claim after what was received: earlier than planned for a release that a majority
// of the nodes reports, never because of fewer, and never before a false alarm is over.
func TestWhenToClaimAfterAMessage(t *testing.T) {
	const planned, rtt, unit = 8 * time.Second, 3 * time.Millisecond, 6 * time.Millisecond
	ends := func(next string) map[int]protocol.Message {
		return map[int]protocol.Message{0: {Token: 7, First: next}, 2: {Token: 7, First: next}}
	}
	for name, c := range map[string]struct {
		received    map[int]protocol.Message // the ends of terms
		ignored     time.Duration
		least, most time.Duration // from now on
	}{
		"nothing":                         {least: planned, most: planned},
		"one node's word":                 {received: map[int]protocol.Message{1: {Token: 7}}, least: planned, most: planned},
		"a release":                       {received: ends(""), least: unit, most: 5 * unit},
		"a release after a false alarm":   {received: ends(""), ignored: time.Second, least: time.Second, most: time.Second},
		"ignored for longer than planned": {received: ends(""), ignored: time.Hour, least: planned, most: planned},
		"named to go first":               {received: ends("me")},
		"another one is named":            {received: ends("you"), least: unit, most: 5 * unit},
		"reserved for us":                 {received: ends(protocol.Reservation("me"))},
		"reserved for another":            {received: ends(protocol.Reservation("you")), least: 2500 * time.Millisecond, most: 2500*time.Millisecond + 5*unit},
		"reserved for another, one node's": {
			received: map[int]protocol.Message{0: {Token: 7, First: protocol.Reservation("you")}, 2: {Token: 7}}, least: unit, most: 5 * unit,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for range 20 { // much of it is random
					d := follower(3)
					now := time.Now()
					d.ended, d.holder, d.rtt, d.followers = c.received, "a", rtt, 4
					d.at, d.ignoreUntil = now.Add(planned), now.Add(c.ignored)
					got := d.next(now)
					if in := got.Sub(now); in < c.least || in > c.most {
						t.Fatalf("in %v, want %v to %v", in, c.least, c.most)
					}
					if again := d.next(now); !again.Equal(got) { // whoever repeats messages puts nothing off, nor brings it forward
						t.Fatalf("put off by %v", again.Sub(got))
					}
				}
			})
		})
	}
}

// A report of each node counts, the newest, so that one that was forged hides none; and no end of an
// older term is a reason to claim against a newer leader.
func TestReportsOfEnds(t *testing.T) {
	for name, c := range map[string]struct {
		reports [][2]uint64 // node and token
		woken   bool
	}{
		"one":                            {reports: [][2]uint64{{0, 7}}},
		"one, twice":                     {reports: [][2]uint64{{0, 7}, {0, 7}}},
		"two":                            {reports: [][2]uint64{{0, 7}, {2, 7}}, woken: true},
		"of older terms":                 {reports: [][2]uint64{{0, 6}, {1, 6}, {2, 6}}},
		"a forged one, then the true":    {reports: [][2]uint64{{0, 8}, {1, 8}, {0, 7}, {1, 7}}, woken: true},
		"the true, then one of far away": {reports: [][2]uint64{{0, 7}, {1, 7}, {0, 1 << 52}}, woken: true},
	} {
		d := follower(3)
		d.at = time.Now().Add(time.Hour)
		for _, r := range c.reports {
			d.termEnded(int(r[0]), protocol.Message{Kind: protocol.KindReleased, Token: r[1]})
		}
		if d.next(time.Now()); d.woken != c.woken {
			t.Errorf("%s: woken %v", name, d.woken)
		}
	}
}

// Of a thousand followers about eight act at the end of each term, others each time: all would be a
// herd, and if none did, a lease would pass without a leader where the named one is dead.
func TestFewAct(t *testing.T) {
	const followers, terms = 1000, 50
	seeds := make([]maphash.Seed, followers)
	for i := range seeds {
		seeds[i] = maphash.MakeSeed()
	}
	all, ever := 0, map[int]bool{}
	for token := range uint64(terms) {
		n := 0
		for i, seed := range seeds {
			if acts(seed, token, followers) {
				ever[i], n = true, n+1
			}
			if !acts(seed, token, few) {
				t.Fatal("one of a few does not act")
			}
		}
		if all += n; n > 3*few {
			t.Errorf("%d act", n)
		}
	}
	if mean := float64(all) / terms; mean < few-3 || mean > few+3 || len(ever) < all/2 {
		t.Errorf("%.1f act on average, and %d of them ever", mean, len(ever))
	}
}

// holding is a node's answer that somebody holds its lock for so much longer.
func holding(who string, token string, left time.Duration) protocol.Answer {
	return protocol.Answer{Status: protocol.Held, Holder: who + "/x/1 n=3 lease=10000 token=" + token, Left: left, Subscribers: -1}
}

// When to claim after a claim that was lost: when the lock would lapse; soon, and then
// less and less often, where too few nodes answer; and at random after a split vote, or
// the same candidates split it again.
func TestWhenToClaimAgain(t *testing.T) {
	const lease, rtt, unit = 10 * time.Second, 3 * time.Millisecond, 6 * time.Millisecond
	unknown := protocol.Answer{Status: protocol.Unknown, Subscribers: -1}
	won := protocol.Answer{Status: protocol.Won, Fence: 8, Subscribers: -1}
	paused := protocol.Answer{Status: protocol.Paused, Left: 20 * time.Second, Subscribers: -1}
	a := func(left time.Duration) protocol.Answer { return holding("a", "7", left) }
	for name, c := range map[string]struct {
		answers     []protocol.Answer
		times       int // in a row
		first       bool
		least, most time.Duration
	}{
		"held":                           {answers: []protocol.Answer{a(4 * time.Second), a(5 * time.Second), unknown}, least: 5*time.Second + claimSpacing + unit, most: 5*time.Second + claimSpacing + 2*unit},
		"held, and we are the first":     {answers: []protocol.Answer{a(4 * time.Second), a(5 * time.Second), unknown}, first: true, least: 5*time.Second + afterLease, most: 5*time.Second + afterLease},
		"held without an end":            {answers: []protocol.Answer{a(-1), a(-1), a(-1)}, least: lease + claimSpacing + unit, most: lease + claimSpacing + 2*unit},
		"paused for longer than a lease": {answers: []protocol.Answer{paused, paused, paused}, least: lease + claimSpacing + unit, most: lease + claimSpacing + 2*unit},
		"nobody answers":                 {answers: []protocol.Answer{unknown, unknown, a(time.Second)}, times: 1, least: lease / 128, most: lease / 64},
		"nobody answers, once more":      {answers: []protocol.Answer{unknown, unknown, a(time.Second)}, times: 2, least: lease / 64, most: lease / 32},
		"nobody answers for long":        {answers: []protocol.Answer{unknown, unknown, a(time.Second)}, times: 20, least: lease / 8, most: lease / 4},
		"a split vote":                   {answers: []protocol.Answer{won, holding("b", "8", lease), holding("c", "8", lease)}, times: 1, least: rtt, most: 4 * rtt},
		"a split vote, once more":        {answers: []protocol.Answer{won, holding("b", "8", lease), holding("c", "8", lease)}, times: 2, least: 2 * rtt, most: 8 * rtt},
		"votes that split for long":      {answers: []protocol.Answer{won, holding("b", "8", lease), holding("c", "8", lease)}, times: 30, least: lease / 8, most: lease / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for range 20 {
					d := follower(3)
					if c.first {
						for i := range c.answers {
							c.answers[i].Note = protocol.GoesFirst
						}
					}
					for range max(1, c.times) {
						d.lost(quorum.Tally{Answers: c.answers, RTT: rtt}, 1, time.Now())
					}
					if in := time.Until(d.at); in < c.least || in > c.most {
						t.Fatalf("in %v, want %v to %v", in, c.least, c.most)
					}
				}
			})
		})
	}
}

// A candidate that must not lead comes when the lock in its way lapses, and without one after half a lease
// to three quarters.
func TestRefusedClaimWaitsForTheLockInItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for left, want := range map[time.Duration][2]time.Duration{
			time.Second:     {time.Second, 1100 * time.Millisecond},
			-1:              {5 * time.Second, 7500 * time.Millisecond},
			time.Minute:     {5 * time.Second, 7500 * time.Millisecond},
			7 * time.Second: {5 * time.Second, 7100 * time.Millisecond},
		} {
			d, no := follower(3), protocol.Answer{Status: protocol.Won}
			d.refused(quorum.Tally{Answers: []protocol.Answer{no, no, holding("a", "7", left)}}, time.Now())
			if in := time.Until(d.at); in < want[0] || in > want[1] {
				t.Errorf("%v left of the lock: in %v, want %v", left, in, want)
			}
		}
	})
}

// A claim that was made because of a message, and met the holder of before, shuts the
// ears for a sixteenth of a lease: else whoever forges releases drives the claims of all.
func TestFalseAlarmIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			woken   bool
			was     string
			ignored bool
		}{{true, "a/x/1", true}, {false, "a/x/1", false}, {true, "b/x/1", false}} {
			d := follower(3)
			d.woken, d.holder = c.woken, c.was
			h := holding("a", "7", time.Second)
			d.lost(quorum.Tally{Answers: []protocol.Answer{h, h, h}}, 1, time.Now())
			want := time.Time{}
			if c.ignored {
				want = time.Now().Add(d.RetryEvery)
			}
			if !d.ignoreUntil.Equal(want) || d.woken || d.holder != "a/x/1" || d.token != 7 {
				t.Errorf("%+v: ignored until %v, want %v; woken %v, held %q, token %d", c, d.ignoreUntil, want, d.woken, d.holder, d.token)
			}
			d.holder, d.woken, d.ignoreUntil = "", true, time.Time{} // nobody led, and nobody does
			no := protocol.Answer{Status: protocol.Unknown}
			if d.lost(quorum.Tally{Answers: []protocol.Answer{no, no, no}}, 1, time.Now()); !d.ignoreUntil.IsZero() {
				t.Error("ignored where nobody holds")
			}
		}
	})
}

// At a lease's end few followers come at once, the first one ahead, and of many the others much later: a
// thousand at once would be a herd, and a few that wait for nothing a late election.
func TestClaimsAreSpread(t *testing.T) {
	for name, c := range map[string]struct {
		followers   int
		first       bool
		least, most time.Duration // and these are reached, nearly
	}{
		"the first":  {followers: 1000, first: true, least: afterLease, most: afterLease},
		"alone":      {followers: 1, least: 2 * claimSpacing, most: 3 * claimSpacing},
		"three":      {followers: 3, least: 2 * claimSpacing, most: 5 * claimSpacing},
		"a thousand": {followers: 1000, least: 10 * time.Second / 16, most: 10 * time.Second / 8},
	} {
		t.Run(name, func(t *testing.T) {
			least, most := time.Hour, time.Duration(0)
			for range 500 {
				d := follower(3)
				d.followers, d.first = c.followers, c.first
				in := d.behindLease()
				if acts(d.seed, d.token, c.followers) != (c.followers <= few) {
					if in > 2*claimSpacing+few*perFollower && !c.first {
						t.Fatalf("one that acts comes after %v", in)
					}
					continue
				}
				least, most = min(least, in), max(most, in)
			}
			span := (c.most - c.least) / 10
			if least < c.least || most > c.most || least > c.least+span || most < c.most-span {
				t.Errorf("%v to %v, want %v to %v", least, most, c.least, c.most)
			}
		})
	}
}

// One slow answer does not make a follower slow: it is believed when it comes again.
func TestOneSlowAnswer(t *testing.T) {
	d, slow := follower(3), 0
	for _, rtt := range []time.Duration{time.Millisecond, time.Second, time.Millisecond, time.Second, time.Second} {
		d.lost(quorum.Tally{RTT: rtt}, 1, time.Now())
		if d.rtt > 2*time.Millisecond {
			slow++
		}
	}
	if d.rtt != 4*time.Millisecond || slow != 1 {
		t.Errorf("a round trip of %v, %d times slow", d.rtt, slow)
	}
}

// Followers come when a majority of the nodes can grant a claim: earlier is in vain, and
// later leaves the election without a leader.
func TestOpensWhenAMajorityCouldGrant(t *testing.T) {
	const s = time.Second
	left := func(status protocol.Status, d time.Duration) protocol.Answer {
		return protocol.Answer{Status: status, Left: d}
	}
	held := func(d time.Duration) protocol.Answer { return left(protocol.Held, d) }
	unknown, won := left(protocol.Unknown, 0), left(protocol.Won, 9*s)
	for _, c := range []struct {
		answers []protocol.Answer
		want    time.Duration
		ok      bool
	}{
		{[]protocol.Answer{held(3 * s), held(s), held(2 * s)}, 2 * s, true},
		{[]protocol.Answer{held(3 * s), unknown, held(s)}, 3 * s, true},
		{[]protocol.Answer{held(s), unknown, unknown}, 0, false},
		{[]protocol.Answer{held(s), unknown, left(protocol.SameServer, 0)}, 0, false},
		{[]protocol.Answer{won, held(s), held(2 * s)}, s, true},
		{[]protocol.Answer{won, won, held(2 * s)}, 0, true},
		{[]protocol.Answer{held(-1), held(s), held(2 * s)}, 2 * s, true},
		{[]protocol.Answer{held(-1), held(-1), held(2 * s)}, noExpiry, true},
		{[]protocol.Answer{left(protocol.Paused, 5*s), left(protocol.Abstains, 4*s), left(protocol.Reserved, 3*s)}, 4 * s, true},
	} {
		if got, ok := opensAt(quorum.Tally{Answers: c.answers}, 2); got != c.want || ok != c.ok {
			t.Errorf("%+v: %v, %v; want %v, %v", c.answers, got, ok, c.want, c.ok)
		}
	}
}
