package peers

import (
	"context"
	"time"
)

// confirmPause reads from Redis whether the election is paused, if a report is still to be
// confirmed: at most once per RetryEvery, however many messages arrive. A candidate that waits
// for the end of a pause claims again.
func (p *Peers) confirmPause(ctx context.Context) {
	d := &p.pauses
	if !d.open {
		return
	}
	if wait := p.c.RetryEvery - time.Since(d.read); wait > 0 {
		if !d.waiting {
			d.waiting = true
			time.AfterFunc(wait, p.worker.wake)
		}
		return
	}
	*d = pauseCheck{read: time.Now()}
	if p.c.Self.IsPaused() {
		select {
		case p.pauseEnded <- struct{}{}:
		default:
		}
	}
	p.requests.background(func() { p.c.Self.ReadPause(ctx) })
}
