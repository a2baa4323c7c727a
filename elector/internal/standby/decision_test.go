package standby

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// When to claim after what was received: earlier than planned for a release that a majority
// of the nodes reports, never because of fewer, and never before a false alarm is over.
func TestWhenToClaimAfterAMessage(t *testing.T) {
	const planned, rtt = 8 * time.Second, 3 * time.Millisecond
	ends := func(next string) map[int]protocol.WakeMessage {
		return map[int]protocol.WakeMessage{0: {Token: 7, First: next}, 2: {Token: 7, First: next}}
	}
	for name, c := range map[string]struct {
		received    notices
		row         bool // in the front row
		ignored     time.Duration
		nobody      bool          // the last claim saw no holder
		least, most time.Duration // from now on
	}{
		"nothing":                         {least: planned, most: planned},
		"one node's word":                 {received: notices{events: map[int]protocol.WakeMessage{1: {Token: 7}}}, least: planned, most: planned},
		"a release":                       {received: notices{events: ends("")}, least: frontRowAhead, most: frontRowAhead + 20*perFollower},
		"a release after a false alarm":   {received: notices{events: ends("")}, ignored: time.Second, least: time.Second, most: time.Second},
		"ignored for longer than planned": {received: notices{events: ends("")}, ignored: time.Hour, least: planned, most: planned},
		"in the front row":                {received: notices{wake: ends(""), events: ends("")}, row: true, least: 0, most: 3 * 2 * rtt},
		"named to go first":               {received: notices{wake: ends("me"), events: ends("me")}, row: true},
		"another one is named":            {received: notices{wake: ends("you"), events: ends("you")}, row: true, least: 2 * rtt, most: 2*rtt + 4*2*rtt},
		"the seat is kept for us":         {received: notices{events: ends(protocol.Reservation("me"))}},
		"the seat is kept for another":    {received: notices{wake: ends(protocol.Reservation("you")), events: ends(protocol.Reservation("you"))}, row: true, least: 2500 * time.Millisecond, most: 2500*time.Millisecond + 4*2*rtt},
		"kept for another, one node's":    {received: notices{wake: map[int]protocol.WakeMessage{0: {Token: 7, First: protocol.Reservation("you")}, 2: {Token: 7}}, events: ends("")}, row: true, most: 3 * 2 * rtt},
		"a new leader, in the row":        {received: notices{wake: ends(""), events: ends(""), elected: 8}, row: true, least: 4 * 2 * rtt * 2, most: 2 * 4 * 2 * rtt * 2},
		"a new leader, behind":            {received: notices{events: ends(""), elected: 8, considered: 8}, least: 5 * time.Second, most: 7500 * time.Millisecond},
		"a gap in what was received":      {received: notices{resubscribed: true}, least: 0, most: 625 * time.Millisecond},
		"a gap, and nobody led":           {received: notices{resubscribed: true}, nobody: true, least: planned, most: planned},
		"the leader that we saw, again":   {received: notices{elected: 7}, least: planned, most: planned},
		"a new leader, one node's word":   {received: notices{elected: 8, considered: 8}, least: 5 * time.Second, most: 7500 * time.Millisecond},
		"the same, in the row":            {received: notices{elected: 8}, row: true, least: planned, most: planned},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for range 20 { // much of it is random
					d := follower(3)
					now := time.Now()
					d.notices, d.holder, d.rtt, d.waiters, d.listening = c.received, "a", rtt, 4, 20
					d.at, d.ignoreUntil = now.Add(planned), now.Add(c.ignored)
					if c.nobody {
						d.holder = ""
					}
					d.inRow = c.row
					got := d.next(now)
					if in := got.Sub(now); in < c.least || in > c.most {
						t.Fatalf("in %v, want %v to %v", in, c.least, c.most)
					}
					again := d.next(now)
					if again.After(got) { // whoever repeats messages puts nothing off
						t.Fatalf("put off by %v", again.Sub(got))
					}
					if (c.received.resubscribed || c.received.events == nil) && !again.Equal(got) { // nor does it bring forward
						t.Fatalf("brought forward by %v", got.Sub(again))
					}
				}
			})
		})
	}
}

// holding is a node's answer that somebody holds its lock for so much longer.
func holding(who string, token string, left time.Duration) protocol.Answer {
	return protocol.Answer{Status: protocol.Held, Holder: who + "/x/1 n=3 lease=10000 token=" + token, Left: left, Waiters: -1, Subscribers: -1}
}

// When to claim after a claim that was lost: when the lock would lapse; soon, and then
// less and less often, where too few nodes answer; and at random after a split vote, or
// the same candidates split it again.
func TestWhenToClaimAgain(t *testing.T) {
	const lease, rtt = 10 * time.Second, 3 * time.Millisecond
	unknown := protocol.Answer{Status: protocol.Unknown, Waiters: -1, Subscribers: -1}
	won := protocol.Answer{Status: protocol.Won, Fence: 8, Waiters: -1, Subscribers: -1}
	paused := protocol.Answer{Status: protocol.Paused, Left: 20 * time.Second, Waiters: -1, Subscribers: -1}
	a := func(left time.Duration) protocol.Answer { return holding("a", "7", left) }
	for name, c := range map[string]struct {
		answers     []protocol.Answer
		times       int // in a row
		first       bool
		least, most time.Duration
	}{
		"held":                           {answers: []protocol.Answer{a(4 * time.Second), a(5 * time.Second), unknown}, least: 5*time.Second + claimSpacing, most: 5*time.Second + claimSpacing},
		"held, and we are the first":     {answers: []protocol.Answer{a(4 * time.Second), a(5 * time.Second), unknown}, first: true, least: 5*time.Second + afterLease, most: 5*time.Second + afterLease},
		"held without an end":            {answers: []protocol.Answer{a(-1), a(-1), a(-1)}, least: lease + claimSpacing, most: lease + claimSpacing},
		"paused for longer than a lease": {answers: []protocol.Answer{paused, paused, paused}, least: lease + claimSpacing, most: lease + claimSpacing},
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
					d.waiters, d.listening, d.inRow = 1, 1, true
					if c.first {
						for i := range c.answers {
							c.answers[i].Note = protocol.GoesFirst
						}
					}
					for range max(1, c.times) {
						d.lost(quorum.Tally{Answers: c.answers, RTT: rtt}, time.Now())
					}
					if in := time.Until(d.at); in < c.least || in > c.most {
						t.Fatalf("in %v, want %v to %v", in, c.least, c.most)
					}
				}
			})
		})
	}
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
			d.woken, d.holder, d.waiters, d.inRow = c.woken, c.was, 1, true
			h := holding("a", "7", time.Second)
			d.lost(quorum.Tally{Answers: []protocol.Answer{h, h, h}}, time.Now())
			want := time.Time{}
			if c.ignored {
				want = time.Now().Add(d.RetryEvery)
			}
			if !d.ignoreUntil.Equal(want) || d.woken || d.holder != "a/x/1" || d.token != 7 {
				t.Errorf("%+v: ignored until %v, want %v; woken %v, held %q, token %d", c, d.ignoreUntil, want, d.woken, d.holder, d.token)
			}
			d.holder, d.woken, d.ignoreUntil = "", true, time.Time{} // nobody led, and nobody does
			no := protocol.Answer{Status: protocol.Unknown}
			if d.lost(quorum.Tally{Answers: []protocol.Answer{no, no, no}}, time.Now()); !d.ignoreUntil.IsZero() {
				t.Error("ignored where nobody holds")
			}
		}
	})
}

// At a lease's end followers come spread by how many they are, the front row first: a
// thousand at once would be a herd, and a few that wait for nothing a late election.
func TestClaimsAreSpread(t *testing.T) {
	for name, c := range map[string]struct {
		nodes, waiters, subscribers int
		row, first                  bool
		least, most                 time.Duration // and these are reached, nearly
	}{
		"the first":                              {nodes: 3, waiters: 8, subscribers: 1000, row: true, first: true, least: afterLease, most: afterLease},
		"alone":                                  {nodes: 3, waiters: 1, subscribers: 1, row: true, least: claimSpacing, most: claimSpacing},
		"one node, three in the row":             {nodes: 1, waiters: 3, subscribers: 3, row: true, least: claimSpacing, most: claimSpacing},
		"one node, four in the row":              {nodes: 1, waiters: 4, subscribers: 4, row: true, least: claimSpacing, most: claimSpacing + claimSpacing*3/2},
		"three nodes, three in the row":          {nodes: 3, waiters: 3, subscribers: 3, row: true, least: claimSpacing, most: claimSpacing * 2},
		"a full row of a subscribers":            {nodes: 3, waiters: 8, subscribers: 1000, row: true, least: claimSpacing, most: claimSpacing + claimSpacing*7/2},
		"behind the row":                         {nodes: 3, waiters: 8, subscribers: 1000, least: claimSpacing + 1000*perSubscriber, most: claimSpacing + 1000*(perSubscriber+perFollower)},
		"no subscribers, and not in the row":     {nodes: 3, waiters: 0, subscribers: protocol.FrontRow, least: claimSpacing, most: claimSpacing},
		"one more is a subscribers, at one node": {nodes: 1, waiters: 8, subscribers: protocol.FrontRow + 1, least: claimSpacing + frontRowAhead, most: claimSpacing + frontRowAhead + 9*perFollower},
	} {
		t.Run(name, func(t *testing.T) {
			d := follower(c.nodes)
			d.waiters, d.listening, d.namedNext, d.inRow = c.waiters, c.subscribers, c.first, c.row
			least, most := d.spread(), d.spread()
			for range 500 {
				in := d.spread()
				least, most = min(least, in), max(most, in)
			}
			span := (c.most - c.least) / 10
			if least < c.least || most > c.most || least > c.least+span || most < c.most-span {
				t.Errorf("%v to %v, want %v to %v", least, most, c.least, c.most)
			}
		})
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
