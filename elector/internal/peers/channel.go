package peers

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// Bounds of a request and its answers.
const (
	requestTimeout = time.Second // for all answers
	// JoinTimeout is for a subscription to be taken by all nodes.
	JoinTimeout = 500 * time.Millisecond
	// linger is for more answers than are expected: candidates of one process share their
	// connections, and count as one listener.
	linger = 10 * time.Millisecond
)

// Nodes is what a Channel needs of quorum.Nodes.
type Nodes interface {
	Majority() int
	Listeners(ctx context.Context, channel string, limit time.Duration) int
	Request(ctx context.Context, channel string, payload []byte, limit time.Duration) []error
	PublishTo(ctx context.Context, node int, channel string, payload []byte, limit time.Duration) error
}

// Bus is what it needs of pubsub.Bus.
type Bus interface {
	Subscribe(channel string, notify func(pubsub.Signal)) (unsubscribe func())
	Collect(channel string, maxSize int) *pubsub.Collector
	Turn(ctx context.Context) (done func())
}

// Channel is where the candidates of one election, and its operators, reach each other.
type Channel struct {
	Nodes    Nodes
	Bus      Bus
	Keys     *protocol.Keys
	Election string
}

// channelOf is where requests of a kind are published. Roll calls have a channel to
// themselves: Redis grants rights by channel, and a user who may only look is granted
// this one. Anything else that arrives there is ignored.
func (c Channel) channelOf(kind string) string {
	if kind == rollCall {
		return c.Keys.Roll
	}
	return c.Keys.Ask
}

// RollCall queries all candidates, and waits until all that are subscribed have
// answered, or for a bounded time. It returns the errors of the nodes, by node, when no
// majority of them could be reached, or none lets us receive the answers.
func (c Channel) RollCall(ctx context.Context) (all []Candidate, failed []error) {
	defer c.Bus.Turn(ctx)()
	expected := c.Nodes.Listeners(ctx, c.Keys.Roll, JoinTimeout)
	if expected == 0 { // no candidate is there; or Redis lets none subscribe, nor us
		answers := c.Bus.Collect(protocol.Reply(c.Keys.Roll, rand.Text()), protocol.MaxMessage)
		defer answers.Close()
		return nil, answers.Ready(ctx, JoinTimeout)
	}
	known := map[string]bool{}
	failed = c.ask(ctx, request{Kind: rollCall}, linger, func(a Answer) bool {
		if a.Candidate != nil && !known[a.Candidate.Incarnation] {
			known[a.Candidate.Incarnation] = true
			all = append(all, *a.Candidate)
		}
		return len(all) == expected
	})
	return all, failed
}

// StepDown requests of the leader, by its incarnation and the token of its term, to hand over, to the incarnation
// to or, when that is "", to any. ok is false when it has not answered; the errors are
// RollCall's. Only its own answer counts: once it has obeyed, the next leader may receive the request, too, and
// answer first that the term is over.
func (c Channel) StepDown(ctx context.Context, leader string, token uint64, to, note string) (a Answer, ok bool, failed []error) {
	failed = c.ask(ctx, request{Kind: stepDown, Token: token, To: to, Note: note}, 0, func(got Answer) bool {
		if ok || got.Candidate == nil || got.Candidate.Incarnation != leader {
			return false
		}
		a, ok = got, true
		return true
	})
	return a, ok, failed
}

// Paused has the candidates check whether the election is paused.
func (c Channel) Paused(ctx context.Context, note string) {
	c.publish(ctx, request{Kind: paused, Note: note}, requestTimeout)
}

// Resumed has those that wait for the end of a pause check again.
func (c Channel) Resumed(ctx context.Context) {
	c.publish(ctx, request{Kind: resumed}, requestTimeout)
}

func (c Channel) publish(ctx context.Context, q request, limit time.Duration) []error {
	q.Election = c.Election
	return c.Nodes.Request(ctx, c.channelOf(q.Kind), q.encode(), limit)
}

// ask publishes a request and passes on the answers until enough is true and what
// it lingers for has come too, or time is up.
func (c Channel) ask(ctx context.Context, q request, linger time.Duration, enough func(Answer) bool) (failed []error) {
	q.Nonce = rand.Text()
	answers := c.Bus.Collect(protocol.Reply(c.channelOf(q.Kind), q.Nonce), protocol.MaxMessage)
	defer answers.Close()
	if refused := answers.Ready(ctx, JoinTimeout); refused != nil { // no answer could arrive, and it might be obeyed
		return refused
	}
	errs := c.publish(ctx, q, requestTimeout)
	if len(slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err != nil })) < c.Nodes.Majority() {
		return errs
	}
	timeout := time.NewTimer(requestTimeout)
	defer timeout.Stop()
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true
		case <-timeout.C:
			over = true
		case <-answers.Arrived():
		}
		// Also when time is up: on a busy machine what came in time may lie here unread.
		for _, m := range answers.Take() {
			if a, err := parseAnswer(m.Payload); err == nil && enough(a) {
				timeout.Reset(linger)
			}
		}
	}
	return nil
}
