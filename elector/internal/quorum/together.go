package quorum

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/transport"
)

// moments is at how many moments between two renewals of one election those of all are due.
const moments = 4

// Together shortens the time to a request that an election makes so often: to the next of the moments that all elections
// on these nodes share which make theirs as often. Their requests then travel together. The request
// after it is due at such a moment again, so that it is shortened once.
func (ns *Nodes) Together(in, every time.Duration) time.Duration {
	at := time.Since(ns.opened) + in
	return max(0, in-at%max(1, every/moments))
}

// Gather has the requests that f posts travel together, and returns when the last call for them has ended. f must not block.
func (ns *Nodes) Gather(f func()) { transport.Gather(ns.senders, f) }
