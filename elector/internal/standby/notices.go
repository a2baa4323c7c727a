package standby

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// notices are what messages said since the last claim. Each may be forged, so none
// hides another: a node's newest report counts, and an election that is announced
// makes the front row wait a moment longer, but never drops its claim.
type notices struct {
	wake, events map[int]protocol.WakeMessage // the newest report of a release, by node; events holds those on wake, too
	elected      uint64                       // the highest token that was announced as elected
	claimAt      time.Time                    // because of a release; zero: there is no reason to
	confirmAt    time.Time                    // the same, when a new leader was announced since
	resubscribed bool                         // something may have been missed
	postponed    bool                         // the planned claim, because of an election
}

// forget drops what is older than the answer of a claim: it was received while that
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
	n.claimAt, n.confirmAt = time.Time{}, time.Time{}
}

// names counts the nodes that name each candidate as the one that goes first.
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
