package demo

import (
	"sync/atomic"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// candidate is a candidate of the demo, with its own connections.
type candidate struct {
	name    string
	color   output.Color
	link    *link
	quorum  *elector.Quorum
	elector *elector.Elector
	beat    *health.Heartbeat
	hung    atomic.Bool // its work does not beat the heartbeat
}
