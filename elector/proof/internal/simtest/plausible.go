package simtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

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
	if rng.IntN(2) == 0 {
		next := []string{"", "", "!ghost", "ghost"}[rng.IntN(4)]
		if kind == "elected" {
			return s.keys.Wake, fmt.Sprint("elected ", token)
		}
		return s.keys.Wake, fmt.Sprintf("released %d %s", token, next)
	}
	b, err := json.Marshal(map[string]any{
		"v": 1, "kind": kind, "election": election, "candidate": name, "advertise": "evil:80", "token": token,
		"reason": "forged", "time": time.Now(),
	})
	if err != nil {
		panic(err)
	}
	return s.keys.Events, string(b)
}

// forge publishes such a message, on one node or on all.
func (s *Sim) forge(rng *rand.Rand) {
	channel, message := s.plausible(rng)
	one := rng.IntN(2 * len(s.nodes))
	for i, n := range s.nodes {
		if one >= len(s.nodes) || i == one {
			n.redis.Publish(channel, message)
		}
	}
}

// forgePlausible is a burst of them, during the faults.
func (p *planner) forgePlausible() {
	p.kind = "plausible forged messages"
	seed, times := p.rng.Uint64(), 1+p.rng.IntN(6)
	p.add(func(s *Sim) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for range times {
			s.forge(rng)
		}
	}, "%d plausible forged messages", times)
}
