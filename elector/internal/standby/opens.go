package standby

import (
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// endless stands for what does not end automatically.
const endless = 1000 * time.Hour

// opensAt is how long after the tally a majority of nodes could grant a claim,
// if it is neither renewed nor released: the quorum-th smallest of what is left. ok is
// false when too few nodes answered.
func opensAt(t quorum.Tally, majority int) (left time.Duration, ok bool) {
	var all []time.Duration
	for _, a := range t.Answers {
		switch a.Status {
		case protocol.Unknown, protocol.SameServer:
		case protocol.Held, protocol.Paused, protocol.Abstains, protocol.Reserved, protocol.NewerVersion:
			if a.Left < 0 { // it has no end
				a.Left = endless
			}
			all = append(all, a.Left)
		default: // it would have granted
			all = append(all, 0)
		}
	}
	if len(all) < majority {
		return 0, false
	}
	slices.Sort(all)
	return all[majority-1], true
}
