package standby

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// notices is the content of the messages received since the last claim. Any message may be
// forged, so none hides another: the newest report of each node counts, and the announcement of a
// leader makes the front row wait a moment longer, but never drops its claim.
type notices struct {
	wake, events map[int]protocol.WakeMessage // the newest report of a release, by node; events also holds those on wake
	elected      uint64                       // the highest token of an announced leader
	claimAt      time.Time                    // when to claim because of a release; zero: none was reported
	confirmAt    time.Time                    // when to claim because a new leader was announced after the release
	resubscribed bool                         // messages may have been missed
	filling      bool                         // the planned claim is to fill the front row
	considered   uint64                       // the announced leader for which fillRow has decided
	postponed    bool                         // the planned claim was postponed because a leader was announced
}

// forget drops what is older than the term that a claim saw: it was received while the claim
// was under way.
func (n *notices) forget(token uint64) {
	for _, reports := range []map[int]protocol.WakeMessage{n.wake, n.events} {
		for node, r := range reports {
			if r.Token < token {
				delete(reports, node)
			}
		}
	}
	if n.elected <= token {
		n.elected = 0
	}
	n.claimAt, n.confirmAt, n.filling = time.Time{}, time.Time{}, false
}

// names returns how many nodes name each candidate, or reservation, as the first to claim.
func names(reports map[int]protocol.WakeMessage) map[string]int {
	count := map[string]int{}
	for _, r := range reports {
		if r.First != "" {
			count[r.First]++
		}
	}
	return count
}

// replaced reports whether a leader was announced that is newer than the terms whose end
// a majority reported.
func (n *notices) replaced(reports map[int]protocol.WakeMessage, majority int) bool {
	newest := 0
	for _, r := range reports {
		if r.Token >= n.elected {
			newest++
		}
	}
	return newest < majority
}
