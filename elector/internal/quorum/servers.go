package quorum

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// servers is what a node's address has shown of the servers behind it. Safe for concurrent use.
type servers struct {
	mu  sync.Mutex
	ids []string  // their identities, the newest last
	at  time.Time // when it showed that
}

const (
	maxServers = 8      // whose identities are remembered
	noIdentity = "none" // of a server without data of the election
)

// noteIdentity compares the identity that a node shows, to a request that was sent at that time, with those that it had
// before. A node that loses its data gets another one, and never an earlier one again: then several servers answer.
func (v *Voter) noteIdentity(node int, id string, sent, answered time.Time) {
	s := &v.servers[node]
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "" || sent.Before(s.at) { // requests that overlap have no order
		return
	}
	if sent.Sub(s.at) > 3*v.cfg.Lease { // of an election that rested: a backup may have been restored since, and all be well
		s.ids = nil
	}
	s.at = answered
	i := slices.Index(s.ids, id)
	if i >= 0 && i < len(s.ids)-1 && id != noIdentity {
		v.nodes.All()[node].Suspect(s.ids, v.cfg.Lease)
	}
	if i >= 0 {
		s.ids = slices.Delete(s.ids, i, i+1)
	}
	s.ids = append(s.ids, id)
	s.ids = s.ids[max(0, len(s.ids)-maxServers):]
}

// Several returns why no lock can hold on these nodes: too many of them have no vote. nil: it can.
func (v *Voter) Several() error {
	var all []error
	for i, n := range v.nodes.All() {
		if err := n.Suspected(v.cfg.Lease); err != nil {
			all = append(all, v.nodes.NodeError(i, err))
		}
	}
	if len(v.state)-len(all) >= v.nodes.Majority() {
		return nil
	}
	return errors.Join(all...)
}

// CheckAddresses opens three connections to each node, to notice an address with several servers behind it, in the
// background and unless an election of this process has begun to within that time. It calls found, on another goroutine,
// if no lock can hold (Several).
func (v *Voter) CheckAddresses(within time.Duration, found func(error)) {
	for i, n := range v.nodes.All() {
		if !n.CheckDue(within) {
			continue
		}
		v.Go(func() {
			ctx, cancel := context.WithTimeout(v.nodes.Life(), v.cfg.CallTimeout)
			defer cancel()
			n.Reconnect(func(c *redis.Client) {
				if !lease.Sleep(ctx, rand.N(10*time.Millisecond)) { // of two leaders that check in step each would only meet its own server
					return
				}
				sent := time.Now()
				if id, err := c.Get(ctx, v.cfg.Keys.ID).Result(); err == nil || rediserr.Missing(err) {
					v.noteIdentity(i, cmp.Or(protocol.ParseIdentity(id), noIdentity), sent, time.Now())
				}
			})
			if err := v.Several(); err != nil {
				found(err)
			}
		})
	}
}
