package quorum

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/transport"
)

// moments is how many common moments there are in each interval between two renewals: see AlignToMoment.
const moments = 4

// AlignToMoment returns when an election should make a request that is due after in, and repeated every
// interval: it shortens in so that the request falls on one of the moments that are common to all
// elections on these nodes with the same interval. Their requests then travel together. The repeated
// requests fall on such moments by themselves, so that only the first one is shortened.
func (ns *Nodes) AlignToMoment(in, every time.Duration) time.Duration {
	at := time.Since(ns.opened) + in
	return max(0, in-at%max(1, every/moments))
}

// Gather lets the requests that f posts travel together (transport.Gather). f must not block.
func (ns *Nodes) Gather(f func()) { transport.Gather(ns.senders, f) }
