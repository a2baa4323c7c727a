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
	// JoinTimeout is how long to wait until all nodes have confirmed a subscription.
	JoinTimeout = 500 * time.Millisecond
	// linger is how long to wait for more answers than expected: the candidates of one process
	// share a connection, and Redis counts them as one subscriber.
	linger = 10 * time.Millisecond
	// maxAnswers is more than the candidates of any election.
	maxAnswers = 10_000
)

// Nodes is the part of nodes.Nodes that a Channel needs.
type Nodes interface {
	Majority() int
	Silent() []int // the nodes that have answered nothing lately
	Publish(ctx context.Context, channel string, payload []byte, limit time.Duration) (receivers int, errs []error)
	PublishTo(ctx context.Context, node int, channel string, payload []byte, limit time.Duration) (receivers int, err error)
}

// Bus is the part of pubsub.Bus that Peers and a Channel need.
type Bus interface {
	Subscribe(channel string, most int, filter func(pubsub.Signal) bool) *pubsub.Subscription
}

// Channel connects the candidates of one election with each other and with its operators.
type Channel struct {
	Nodes    Nodes
	Bus      Bus
	Keys     *protocol.Keys
	Election string
}

// channelOf returns the channel for a kind of request. Roll calls have a channel of their own:
// Redis grants rights by channel, and a user who may only look is granted this one. Candidates
// ignore anything else that arrives there.
func (c Channel) channelOf(kind string) string {
	if kind == rollCall {
		return c.Keys.Roll
	}
	return c.Keys.Ask
}

// RollCall queries all candidates, and waits until all subscribers have answered, for a bounded
// time. Of candidates with another protocol it returns that. It returns the nodes' errors, by node, when no majority of
// the nodes could be reached, or when every node refuses the subscription for the answers.
func (c Channel) RollCall(ctx context.Context) (all []Candidate, others []int, failed []error) {
	known := map[string]bool{}
	failed = c.ask(ctx, request{Kind: rollCall}, linger, func(a Answer, receivers int) bool {
		switch {
		case a.Version != protocol.Version:
			others = append(others, a.Version)
		case a.Candidate != nil && !known[a.Candidate.Incarnation]:
			known[a.Candidate.Incarnation] = true
			all = append(all, *a.Candidate)
		}
		return len(all)+len(others) == receivers
	})
	return all, others, failed
}

// StepDown requests the leader with that incarnation to end the term with that token, and to hand
// over to the incarnation to; "": to any. ok is false when the leader has not answered; the errors
// are those of RollCall. Only the answer of this incarnation counts: once it has obeyed, the next
// leader may receive the request, too, and answer first that the term is over.
func (c Channel) StepDown(ctx context.Context, leader string, token uint64, to, note string) (a Answer, ok bool, failed []error) {
	failed = c.ask(ctx, request{Kind: stepDown, Leader: leader, Token: token, To: to, Note: note}, 0, func(got Answer, _ int) bool {
		if ok || got.Candidate == nil || got.Candidate.Incarnation != leader {
			return false
		}
		a, ok = got, true
		return true
	})
	return a, ok, failed
}

// Paused makes the candidates check whether the election is paused.
func (c Channel) Paused(ctx context.Context, note string) {
	c.publish(ctx, request{Kind: paused, Note: note}, requestTimeout)
}

// Resumed makes the candidates that wait for the end of a pause check again.
func (c Channel) Resumed(ctx context.Context) {
	c.publish(ctx, request{Kind: resumed}, requestTimeout)
}

func (c Channel) publish(ctx context.Context, q request, limit time.Duration) (receivers int, errs []error) {
	q.Election = c.Election
	return c.Nodes.Publish(ctx, c.channelOf(q.Kind), q.encode(), limit)
}

// ask publishes a request, and passes each answer to enough, with how many have received the request; -1: that is not
// known. It returns linger after enough has returned true, at once if nobody has received the request, or when
// requestTimeout has passed or ctx ends.
func (c Channel) ask(ctx context.Context, q request, linger time.Duration, enough func(a Answer, receivers int) bool) (failed []error) {
	q.Nonce = rand.Text()
	answers := c.Bus.Subscribe(protocol.Reply(c.channelOf(q.Kind), q.Nonce), maxAnswers, func(s pubsub.Signal) bool {
		return s.Kind == pubsub.Message && len(s.Payload) <= protocol.MaxMessage
	})
	defer answers.Close()
	for _, node := range c.Nodes.Silent() {
		answers.Without(node)
	}
	if refused := answers.Ready(ctx, JoinTimeout); refused != nil { // the request might be obeyed, but no answer could arrive
		return refused
	}
	receivers, errs := c.publish(ctx, q, requestTimeout)
	if len(slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err != nil })) < c.Nodes.Majority() {
		return errs
	}
	if receivers == 0 {
		return nil
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
		// Also when time is up: on a busy machine, answers that came in time may still be unread.
		for _, m := range answers.Take() {
			if a, ok := parseAnswer(m.Payload); ok && enough(a, receivers) {
				timeout.Reset(linger)
			}
		}
	}
	return nil
}
