package standby

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// change is a change of a follower's membership in the front row.
type change int

const (
	stay change = iota
	join
	leave
)

// changeRow decides to join the front row while it has room, and to leave it when too many
// joined at once. The candidate that the nodes named as the first to claim always joins: the nodes
// count the followers of one process as one, so they may name one although that process fills the
// front row, and at a release the others would wait for a candidate that was not notified.
func (d *decision) changeRow() change {
	switch {
	case !d.inRow && (d.namedNext || d.waiters < protocol.FrontRow):
		return join
	case d.inRow && !d.namedNext && d.waiters > protocol.FrontRow && upTo(time.Duration(d.waiters)) >= protocol.FrontRow:
		return leave
	default:
		return stay
	}
}
