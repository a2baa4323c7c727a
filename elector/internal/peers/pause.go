package peers

import (
	"context"
	"time"
)

// doubt is about a pause: a message said that there is one, or that it has ended.
// Anyone can send one; only Redis knows.
type doubt struct {
	open    bool
	asked   time.Time // when Redis was asked last
	waiting bool      // for the time to ask again
}

// confirmPause has Redis asked whether the election is paused, if that is in doubt:
// not often, however many messages arrive. A candidate that waits for the end of a pause
// finds out by a claim.
func (p *Peers) confirmPause(ctx context.Context) {
	d := &p.pauses
	if !d.open {
		return
	}
	if wait := p.c.RetryEvery - time.Since(d.asked); wait > 0 {
		if !d.waiting {
			d.waiting = true
			time.AfterFunc(wait, p.wake)
		}
		return
	}
	*d = doubt{asked: time.Now()}
	if p.c.Self.IsPaused() {
		select {
		case p.pauseEnded <- struct{}{}:
		default:
		}
	}
	p.requests.background(func() { p.c.Self.ReadPause(ctx) })
}
