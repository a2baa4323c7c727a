package standby

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// claims has claims made while a Waiter waits: each takes a while, and then shows what shown does.
func claims(w *Waiter, took time.Duration, shown func()) (made *int) {
	bell, n := w.c.Alarm.(*alarm), 0
	bell.claim = func() {
		n++
		time.AfterFunc(took, shown)
	}
	return &n
}

// leadsOn is what claims show while the leader of waiting leads on: a lease with so much left.
func leadsOn(left time.Duration) quorum.Tally {
	a := holding("a", "7", left)
	return quorum.Tally{Answers: []protocol.Answer{a, a, a}, RTT: time.Second}
}

// A release, and the end of a pause, that come while a claim is under way count after it, whatever it shows: it may have been sent before.
func TestNewsWhileAClaimIsUnderWay(t *testing.T) {
	for name, news := range map[string]func(b bus, pause chan struct{}){
		"a release": func(b bus, _ chan struct{}) {
			b.publish(keys.Wake, protocol.WakeMessage{Token: 7, First: "me"}.String(), 0, 1, 2)
		},
		"the end of a pause": func(_ bus, pause chan struct{}) { pause <- struct{}{} },
	} {
		for shown, lost := range map[string]bool{"the same leader": false, "more": true} {
			t.Run(name+" and "+shown, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, b := waiting(t, 1)
					began, pause, votes := time.Now(), make(chan struct{}, 1), leadsOn(10*time.Second)
					made := 0
					claims(w, time.Second, func() {
						if made++; made > 1 || lost || !w.ClaimUnchanged(votes) {
							w.ClaimChanged(&votes)
						}
					})
					time.AfterFunc(8*time.Second+500*time.Millisecond, func() { news(b, pause) })
					w.Wait(t.Context(), nil, nil, pause)
					if lost {
						w.Lost(votes)
						w.Wait(t.Context(), nil, nil, pause)
					}
					if d := time.Since(began); d < 9*time.Second || d > 11*time.Second {
						t.Errorf("claims again after %v", d)
					}
				})
			})
		}
	}
}
