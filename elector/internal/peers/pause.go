package peers

import (
	"context"
	"time"
)

// confirmPause reads from Redis whether the election is paused, if a report of that is open:
// not often, however many messages arrive. A candidate that waits for the end of a pause,
// or until operators let it lead again, finds out by a claim.
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
	if p.c.Self.IsPaused() || p.c.Self.Info().Outdated != "" {
		select {
		case p.pauseEnded <- struct{}{}:
		default:
		}
	}
	p.requests.background(func() { p.c.Self.ReadPause(ctx) })
}
