package elector

import (
	"fmt"
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// Anyone who may publish can flood an observer, and publish what is not about its
// election: the newest messages of a bounded number are kept, and no others.
func TestInboxKeepsTheNewestOfItsElection(t *testing.T) {
	b := newInbox("orders", nil)
	receive := func(election, kind string, token int) {
		b.receive(pubsub.Signal{Kind: pubsub.Message, Payload: fmt.Sprintf(`{"v":1,"kind":%q,"election":%q,"candidate":"a","token":%d}`, kind, election, token)})
	}
	receive("invoices", "elected", 7)
	receive("orders", "stopping", 7) // only the candidate itself reports that
	if all := b.take(); len(all) > 0 || len(b.arrived) > 0 {
		t.Errorf("keeps %+v", all)
	}
	const flood = 3 * eventBuffer
	for token := range flood {
		receive("orders", "elected", token+1)
	}
	all := b.take()
	if n := len(all); n != eventBuffer || all[n-1].Token != flood || all[0].Token != flood-eventBuffer+1 {
		t.Errorf("keeps %d, want the newest %d", n, eventBuffer)
	}
	receive("orders", "released", flood+1)
	b.putBack(all) // an answer of Redis did not use them up
	all = b.take()
	if n := len(all); n != eventBuffer || all[n-1].Token != flood+1 || all[n-2].Token != flood {
		t.Errorf("keeps %d after they were put back, want the newest %d in their order", n, eventBuffer)
	}
}
