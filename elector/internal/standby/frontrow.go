package standby

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// change is what to do about the front row.
type change int

const (
	stay change = iota
	join
	leave
)

// changeRow joins the front row while it has room, and leaves it when too many joined
// at once. Whom the nodes have named as the first to try belongs there: to them the followers of one process are one, so they
// name one though that process fills the row, and a release would have the others wait for a candidate that it does not wake.
func (d *decision) changeRow() change {
	switch {
	case d.outdated:
		if d.inRow {
			return leave
		}
		return stay
	case !d.inRow && (d.first || d.waiters < protocol.FrontRow):
		return join
	case d.inRow && !d.first && d.waiters > protocol.FrontRow && upTo(time.Duration(d.waiters)) >= protocol.FrontRow:
		return leave
	default:
		return stay
	}
}
