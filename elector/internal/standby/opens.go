package standby

import (
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// noExpiry stands for the time left of a lock or mark that does not expire.
const noExpiry = 1000 * time.Hour

// opensAt returns how long after the tally a majority of the nodes could grant a claim, if
// nothing is renewed or released: the quorum-th smallest of the remaining times. ok is false
// when too few nodes answered.
func opensAt(t quorum.Tally, majority int) (left time.Duration, ok bool) {
	var all []time.Duration
	for _, a := range t.Answers {
		switch a.Status {
		case protocol.Unknown, protocol.SameServer:
		case protocol.Held, protocol.Paused, protocol.Abstains, protocol.Reserved:
			if a.Left < 0 { // it does not expire
				a.Left = noExpiry
			}
			all = append(all, a.Left)
		default: // the node would have granted the claim
			all = append(all, 0)
		}
	}
	if len(all) < majority {
		return 0, false
	}
	slices.Sort(all)
	return all[majority-1], true
}
