package quorum

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What answers in Redis' place, or a script of a later version, may say anything. What is
// not an answer of ours is no vote: neither for a claim nor against a lease.
func TestRepliesThatAreNone(t *testing.T) {
	for _, reply := range []any{
		nil, "won", int64(1), []any{}, []any{"won"}, []any{int64(1), "7"}, []any{nil, "7"},
		[]any{"won", "seven"}, []any{"won", "-1"}, []any{"won", "18446744073709551616"}, []any{"won", nil}, []any{"won", "1.5"},
	} {
		if a := parseAnswer(reply, nil); a.Status != Unknown || a.Err == nil {
			t.Errorf("%#v was read as %+v", reply, a)
		}
	}
	if a := parseReply([]any{[]any{"won", "7"}}, errors.New("cut"), 0, 1, nil); a.Status != Unknown || a.Fence != 0 {
		t.Errorf("an answer with an error: %+v", a)
	}
	a := parseAnswer([]any{"held", "7", "b/B/1", int64(1500), int64(3), int64(4), "note", "ABCDEF"}, nil)
	if a != (Answer{Status: Held, Fence: 7, Holder: "b/B/1", Left: 1500 * time.Millisecond, Waiters: 3, Subscribers: 4, Note: "note", ID: "ABCDEF"}) {
		t.Errorf("%+v", a)
	}
	// A short answer is one to a renewal alone, and says what that has shown.
	renewal := renewArgs("a/A/1", "A", 1, testLease, 7, 9, Heir{}, "OFFERE", "", "ABCDEF")
	if a := parseAnswer(int64(asShown), renewal); a != (Answer{Status: Renewed, Fence: 9, Waiters: -1, Subscribers: -1, ID: "ABCDEF"}) {
		t.Errorf("%+v", a)
	}
	claim := claimArgs("a/A/1", "A", 1, testLease, 7, "", KeysOf("mandate", "orders"), "OFFERE", "", "")
	for _, none := range []Answer{parseAnswer(int64(asShown), claim), parseAnswer(int64(asShown), nil), parseAnswer(int64(1), renewal)} {
		if none.Status != Unknown || none.Err == nil {
			t.Errorf("%+v", none)
		}
	}
	// Nobody who counts nothing may be taken for a crowd of none.
	if a := parseAnswer([]any{"mine", "7", "", "note", "ABCDEF"}, nil); a != (Answer{Status: Renewed, Fence: 7, Waiters: -1, Subscribers: -1, Note: "note", ID: "ABCDEF"}) {
		t.Errorf("%+v", a)
	}
}

// A node's identity proves that a lock value names other nodes only when it has been known
// for longer than any such value can be old; and it counts no more when the node has not
// confirmed it for a lease and a half.
func TestHowLongAnIdentityIsGoodFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 10 * time.Second
		l := &nodeQueue{}
		meet := func(id string, want bool, when string) {
			t.Helper()
			if l.meet(id, time.Now(), lease) != want {
				t.Errorf("%s: settled is %v", when, !want)
			}
		}
		known := func(want, when string) {
			t.Helper()
			if got := l.known(time.Now(), lease); got != want {
				t.Errorf("%s: known as %q, want %q", when, got, want)
			}
		}
		known("", "before it answered")
		meet("", false, "an answer without one")
		meet("AAAAAA", false, "at first")
		time.Sleep(lease*7/2 - time.Nanosecond)
		meet("AAAAAA", false, "a moment too early")
		time.Sleep(time.Nanosecond)
		meet("AAAAAA", true, "after three leases and a half")
		meet("", false, "an answer without one")
		time.Sleep(lease * 3 / 2)
		known("AAAAAA", "for a lease and a half")
		time.Sleep(time.Nanosecond)
		known("", "no longer")
		meet("AAAAAA", true, "the same again")
		known("AAAAAA", "again")
		meet("BBBBBB", false, "after a loss of data")
		known("BBBBBB", "after a loss of data")
		// The request's time counts, not the answer's.
		l.meet("BBBBBB", time.Now().Add(-lease*3/2-time.Nanosecond), lease)
		known("", "by an answer that took so long")
	})
}

// What held a node against a term is its rival for as long as it is met there without a
// break: a lock that nobody renews lapses, and another one may take its place.
func TestRivalIsOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := func(holder string) Answer { return Answer{Status: Taken, Holder: holder} }
		one, other := "b/B/1 n=5 lease=10000 token=7", "b/B/2 n=5 lease=10000 token=8"
		var r *rival
		met := func(a Answer, holder string, since time.Duration) {
			t.Helper()
			time.Sleep(time.Second)
			var got rival
			if r = r.next(a); r != nil {
				got = *r
			}
			if got.holder != holder || got.last.Sub(got.since) != since {
				t.Errorf("%+v: held by %q for %v, want %q for %v", a, got.holder, got.last.Sub(got.since), holder, since)
			}
		}
		met(taken(one), one, 0)
		met(taken(one), one, time.Second)
		met(taken(one), one, 2*time.Second)
		met(taken(other), other, 0)
		met(taken(other), other, time.Second)
		met(Answer{Status: Renewed, Holder: other}, "", 0)
		met(taken(other), other, 0)
		met(taken(""), "", 0)
		met(Answer{Status: Unknown}, "", 0)
	})
}
