package simtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// lastToken is that of the newest term, 0 before the first. s.mu is held.
func (s *Sim) lastToken() uint64 {
	if len(s.terms) == 0 {
		return 0
	}
	return s.terms[len(s.terms)-1].token
}

// publish publishes a message on all nodes.
func (s *Sim) publish(channel, message string) {
	for _, n := range s.nodes {
		n.Server().Publish(channel, message)
	}
}

// event is a message on the events channel.
func event(kind, candidate, first string, token uint64) string {
	return fmt.Sprintf("1 %s %d %s ", kind, token, first) + string(protocol.Encode(map[string]any{
		"v": 1, "kind": kind, "election": election, "candidate": candidate, "advertise": "evil:80", "token": token,
		"reason": "forged", "time": time.Now(),
	}))
}

// alarm notifies the candidates that the newest leader has released the lock: a forged
// message that is plausible, so that they claim.
func alarm(s *Sim) {
	s.mu.Lock()
	token := s.lastToken()
	s.mu.Unlock()
	s.publish(s.keys.Events, event("released", "mallory", "", token))
}

// ask requests of all candidates that the leader hands over to another one, or to a ghost.
func (p *planner) ask() {
	to, ghost := p.rng.IntN(len(p.sim.hosts)), p.rng.IntN(3) == 0
	p.add(func(s *Sim) {
		s.mu.Lock()
		token, leader := s.lastToken(), ""
		if len(s.terms) > 0 {
			leader = incarnationOf(s.terms[len(s.terms)-1].proc)
		}
		heir := incarnationOf(s.hosts[to].proc.Load())
		s.mu.Unlock()
		request := map[string]any{"v": 1, "kind": "hand-over", "election": election, "nonce": fmt.Sprint("n", token), "leader": leader, "token": token}
		if ghost {
			request["to"] = "ghost"
		} else if heir != "" {
			request["to"] = heir
		}
		s.publish(s.keys.Ask, string(protocol.Encode(request)))
	}, "a request to hand over to host %d (a ghost: %v)", to, ghost)
}

// incarnationOf returns the incarnation of a process that has claimed. s.mu is held.
func incarnationOf(p *proc) string {
	if parts := strings.Split(p.claim.prefix, "/"); len(parts) > 2 {
		return parts[1]
	}
	return ""
}

// plausible draws a forged message that could be true, by a client that may publish and
// has listened: right names, tokens that are next, a wrong address.
func (s *Sim) plausible(rng *rand.Rand) (channel, message string) {
	s.mu.Lock()
	var last, before uint64
	name := "evil"
	if n := len(s.terms); n > 0 {
		last, name = s.terms[n-1].token, s.terms[n-1].proc.name
		if n > 1 {
			before = s.terms[n-2].token
		}
	}
	s.mu.Unlock()
	if rng.IntN(3) == 0 {
		name = []string{"evil", s.hosts[rng.IntN(len(s.hosts))].proc.Load().name}[rng.IntN(2)]
	}
	token := last + uint64(rng.IntN(3))
	switch rng.IntN(4) {
	case 0: // in the gap between the last two terms
		token = before + rng.Uint64N(max(1, last-min(last, before)))
	case 1: // by the clock
		token = uint64(time.Now().UnixMilli()) + rng.Uint64N(uint64(time.Hour/time.Millisecond))
	}
	kind := []string{"elected", "elected", "released"}[rng.IntN(3)]
	return s.keys.Events, event(kind, name, []string{"", "", "!ghost", "ghost"}[rng.IntN(4)], token)
}

// forge publishes such a message, on one node or on all.
func (s *Sim) forge(rng *rand.Rand) {
	channel, message := s.plausible(rng)
	one := rng.IntN(2 * len(s.nodes))
	for i, n := range s.nodes {
		if one >= len(s.nodes) || i == one {
			n.Server().Publish(channel, message)
		}
	}
}

// forgePlausible is a burst of them, during the faults.
func (p *planner) forgePlausible() {
	seed, times := p.rng.Uint64(), 1+p.rng.IntN(6)
	p.add(func(s *Sim) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for range times {
			s.forge(rng)
		}
	}, "%d plausible forged messages", times)
}
