package peers

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

var errSilent = errors.New("it does not answer")

// Warm requests a candidate to get ready to lead after the term with that token. It blocks until
// the candidate is ready or reports an error, until ctx ends, or for requestTimeout without any
// answer; limit is how long the candidate may take.
func (p *Peers) Warm(ctx context.Context, token uint64, to string, limit time.Duration) error {
	q := request{Kind: warm, Election: p.c.Election, Token: token, To: to, For: limit, Nonce: rand.Text()}
	answers := p.c.Bus.Collect(protocol.Reply(p.c.Keys.Ask, q.Nonce), protocol.MaxMessage)
	defer answers.Close()
	if answers.Ready(ctx, JoinTimeout) != nil {
		return errSilent
	}
	go p.c.publish(context.WithoutCancel(ctx), q, p.c.CallTimeout) // a hung node must not delay this function
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
