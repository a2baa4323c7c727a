package peers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// fakeNodes records what is published; one node that always answers.
type fakeNodes struct {
	mu             sync.Mutex
	sent, channels []string // payloads, and where they went
}

func (n *fakeNodes) Majority() int { return 1 }

func (n *fakeNodes) Silent() []int { return nil }
func (n *fakeNodes) Subscribe(_ string, most int, filter func(pubsub.Signal) bool) *pubsub.Subscription {
	return pubsub.NewSubscription(1, most, filter)
}

func (n *fakeNodes) Publish(_ context.Context, channel string, payload []byte, _ time.Duration) (receivers int, errs []error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent, n.channels = append(n.sent, string(payload)), append(n.channels, channel)
	return 1, []error{nil}
}

func (n *fakeNodes) PublishTo(ctx context.Context, _ int, channel string, payload []byte, limit time.Duration) (receivers int, err error) {
	receivers, errs := n.Publish(ctx, channel, payload, limit)
	return receivers, errs[0]
}

func (n *fakeNodes) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.sent)
}

// fakeSelf leads the term with token 7, unless token is another.
type fakeSelf struct {
	token    uint64
	handedTo []string
}

func (s *fakeSelf) Info() Candidate {
	return Candidate{ID: "m", Incarnation: "m1", Role: "leading", Token: s.token, Healthy: true}
}
func (s *fakeSelf) Leading() (uint64, bool) { return s.token, s.token != 0 }
func (s *fakeSelf) HandOver(_ uint64, to string, why error) {
	s.handedTo = append(s.handedTo, to+": "+why.Error())
}

func (s *fakeSelf) Yieldable(context.Context) error { return nil }
func (s *fakeSelf) IsPaused() bool                  { return false }
func (s *fakeSelf) ReadPause(context.Context)       {}

func testPeers(self *fakeSelf, order Order) (*Peers, *fakeNodes) {
	nodes, keys := &fakeNodes{}, protocol.KeysOf("mandate", "orders")
	p := New(Config{
		Channel: Channel{Nodes: nodes, Bus: nodes, Keys: &keys, Election: "orders"},
		Self:    self, Go: func(f func()) { f() }, NotSubscribed: func(error) {}, OtherVersion: func(int) {},
		Incarnation: "m1", Order: order,
		Lease: 10 * time.Second, RenewEvery: 2500 * time.Millisecond, RetryEvery: 625 * time.Millisecond, CallTimeout: time.Second,
	})
	return p, nodes
}

func (p *Peers) receiveAll(all ...request) {
	for _, q := range all {
		q.Election = "orders"
		p.receive(p.c.channelOf(q.Kind), pubsub.Signal{Kind: pubsub.Message, Payload: string(q.encode())})
	}
}

func (p *Peers) answerAll(ctx context.Context, b *mailbox) {
	for range len(b.received) {
		p.answer(ctx, <-b.received)
	}
}

// A request to step down ends the term that it names, once, however many nodes bring it.
// One that is meant for an earlier term ends nothing.
func TestStepDownEndsTheTermThatIsMeant(t *testing.T) {
	self := &fakeSelf{token: 7}
	p, nodes := testPeers(self, Race)
	p.receiveAll(
		request{Kind: stepDown, Leader: "m1", Nonce: "A", Token: 6, To: "b1"},
		request{Kind: stepDown, Leader: "m1", Nonce: "B", Token: 7, To: "b1", Note: "by ann: upgrade"},
		request{Kind: stepDown, Leader: "m1", Nonce: "B", Token: 7, To: "b1", Note: "by ann: upgrade"}, // from another node
	)
	p.answerAll(t.Context(), p.requests)
	if len(self.handedTo) != 1 || self.handedTo[0] != "b1: requested by ann: upgrade" {
		t.Errorf("handed over to %q", self.handedTo)
	}
	if nodes.count() != 2 { // one refusal, one consent
		t.Errorf("%d answers: %q", nodes.count(), nodes.sent)
	}
}

// A Redis user who may publish on the channel of roll calls only must not reach a leader
// with anything else.
func TestRequestsCountOnTheirChannelOnly(t *testing.T) {
	self := &fakeSelf{token: 7}
	p, nodes := testPeers(self, ByPriority)
	other := Candidate{ID: "x", Incarnation: "x1", Role: Following, Healthy: true, Priority: 9}
	for _, q := range []request{
		{Kind: stepDown, Leader: "m1", Nonce: "A", Token: 7}, {Kind: leaderAll, Nonce: "B"}, {Kind: paused}, {Kind: resumed},
		{Kind: info, Candidate: &other}, {Kind: gone, Candidate: &other},
	} {
		q.Election = "orders"
		p.receive(p.c.Keys.Roll, pubsub.Signal{Kind: pubsub.Message, Payload: string(q.encode())})
	}
	call := request{Kind: rollCall, Election: "orders", Nonce: "C"}
	p.receive(p.c.Keys.Ask, pubsub.Signal{Kind: pubsub.Message, Payload: string(call.encode())})
	if got := len(p.requests.received) + len(p.rollCalls.received); got > 0 {
		t.Errorf("received %d requests", got)
	}
	p.receive(p.c.Keys.Roll, pubsub.Signal{Kind: pubsub.Message, Payload: string(call.encode())})
	p.answerAll(t.Context(), p.rollCalls)
	if want := []string{p.c.Keys.Roll + ":C"}; !slices.Equal(nodes.channels, want) {
		t.Errorf("answered on %q, want %q", nodes.channels, want)
	}
}

// Who may only call the roll can flood its channel: an operator's request to step down is
// received, obeyed and answered all the same.
func TestRollCallsDisplaceNoRequest(t *testing.T) {
	self := &fakeSelf{token: 7}
	p, _ := testPeers(self, Race)
	var underWay int
	hang := func(func()) { underWay++ } // a node that hangs: no message ends
	p.requests, p.rollCalls = newMailbox(hang, 4), newMailbox(hang, 16)
	for i := range 100 {
		p.receiveAll(request{Kind: rollCall, Nonce: fmt.Sprint("A", i)})
	}
	p.receiveAll(request{Kind: stepDown, Leader: "m1", Nonce: "B", Token: 7})
	p.answerAll(t.Context(), p.rollCalls)
	if underWay != maxSending {
		t.Errorf("%d answers are under way, want %d", underWay, maxSending)
	}
	p.answerAll(t.Context(), p.requests)
	if len(self.handedTo) != 1 || underWay != maxSending+1 {
		t.Errorf("handed over %d times, %d answers are under way", len(self.handedTo), underWay)
	}
}
