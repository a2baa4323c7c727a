package peers

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

var errSilent = errors.New("it does not answer")

// Warm has a candidate get ready to lead after the term with that token, and blocks until it is, until
// ctx ends, or until it has not answered at all for a time; limit is how long it may take.
func (p *Peers) Warm(ctx context.Context, token uint64, to string, limit time.Duration) error {
	q := request{Kind: warm, Election: p.c.Election, Token: token, To: to, For: limit, Nonce: rand.Text()}
	answers := p.c.Bus.Collect(protocol.Reply(p.c.Keys.Ask, q.Nonce), protocol.MaxMessage)
	defer answers.Close()
	if answers.Ready(ctx, JoinTimeout) != nil {
		return errSilent
	}
	go p.c.publish(context.WithoutCancel(ctx), q, p.c.CallTimeout) // a hung node must not hold up the rest
	silent := time.NewTimer(requestTimeout)
	defer silent.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silent.C:
			return errSilent
		case <-answers.Arrived():
		}
		for _, m := range answers.Take() {
			a, err := parseAnswer(m.Payload)
			switch {
			case err != nil || a.Candidate == nil || a.Candidate.Incarnation != to:
			case a.Warming:
				silent.Stop()
			case a.Refused != "":
				return errors.New(protocol.Clip(a.Refused, protocol.MaxDetail))
			default:
				return nil
			}
		}
	}
}
