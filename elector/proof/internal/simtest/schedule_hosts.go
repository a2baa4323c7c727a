package simtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// pause stops a process, or suspends its machine, for a while.
func (p *planner) pause() {
	who, d, suspend := p.whom(), p.span(), p.rng.IntN(2) == 0
	var slept time.Duration
	if p.kind = "candidate is paused"; suspend {
		slept, p.kind = d, "candidate is suspended"
	}
	var hit *proc
	p.add(func(s *Sim) { hit = s.find(who).proc.Load(); hit.pause() }, "%s is paused for %v (suspend %v)", name(who), d, suspend)
	p.later(d, func(*Sim) { hit.resume(slept) }, "%s continues", name(who))
}

func (p *planner) wallStep() {
	who, by := p.whom(), p.upTo(2*time.Hour)-time.Hour
	if p.rng.IntN(2) == 0 {
		by = p.upTo(2*p.sim.t.lease) - p.sim.t.lease
	}
	p.add(func(s *Sim) { s.find(who).proc.Load().warp.Wall.Add(int64(by)) }, "%s: wall clock steps by %v", name(who), by)
}

func (p *planner) noBoot() {
	who, off := p.whom(), p.rng.IntN(3) > 0
	p.add(func(s *Sim) { s.find(who).proc.Load().warp.NoBoot.Store(off) }, "%s: without boot clock %v", name(who), off)
}

func (p *planner) resign() {
	who := p.whom()
	p.add(func(s *Sim) {
		e := s.find(who).proc.Load().e
		s.extra.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*s.t.lease)
			defer cancel()
			_ = e.Resign(ctx)
		})
	}, "%s resigns", name(who))
}

func (p *planner) shutdown() {
	who, after, same := p.whom(), p.upTo(2*p.sim.t.lease), p.rng.IntN(2) == 0
	if p.rng.IntN(2) == 0 {
		after = time.Millisecond
	}
	p.add(func(s *Sim) {
		q, id := s.find(who).proc.Load(), ""
		if same {
			id = q.name
		}
		q.shutdown(after, id)
	}, "%s shuts down, and starts again %v after (same id %v)", name(who), after, same)
}

func (p *planner) crash() {
	who, after := p.whom(), p.upTo(2*p.sim.t.lease)
	p.add(func(s *Sim) { s.find(who).proc.Load().crash(after) }, "%s crashes, and starts again %v after", name(who), after)
}

func (p *planner) probe() {
	who, mode, d, work := p.whom(), p.rng.Int32N(probeModes), p.span(), p.rng.IntN(2) == 0
	var hit *probe
	p.kind = "probe is " + probeWords[mode]
	p.add(func(s *Sim) {
		q := s.find(who).proc.Load()
		if hit = q.probe; work {
			hit = q.work
		}
		hit.set(mode)
	}, "%s: probe (of the work %v) to mode %d", name(who), work, mode)
	p.later(d, func(*Sim) { hit.set(passing) }, "%s: probe passes again", name(who))
}

func (p *planner) work() {
	who, mode := p.whom(), p.rng.Int32N(workModes)
	p.kind = "work is " + workWords[mode]
	p.add(func(s *Sim) { s.find(who).proc.Load().mode.Store(mode) }, "%s: work to mode %d", name(who), mode)
}

// forge publishes garbage, forged and replayed events.
func (p *planner) forge() {
	n, pick, times := p.rng.IntN(len(p.sim.nodes)), p.rng.IntN(1000), 1+p.rng.IntN(4)
	p.add(func(s *Sim) {
		events, _ := s.nodes[n].redis.Stream(s.keys.History)
		var replay []string
		for _, ev := range events {
			replay = append(replay, ev.Values[1])
		}
		for i := range times {
			channel, message := garbage(s.keys, pick+7*i, replay)
			for _, m := range s.nodes {
				m.redis.Publish(channel, message)
			}
		}
	}, "forged messages (%d, %d)", pick, times)
}

// ask puts a request to all candidates: a handover to another one, or to a
// ghost, or a forged card.
func (p *planner) ask() {
	to, kind := p.rng.IntN(len(p.sim.hosts)), p.rng.IntN(5)
	p.kind = "request to all"
	p.add(func(s *Sim) {
		s.mu.Lock()
		var token uint64
		if len(s.terms) > 0 {
			token = s.terms[len(s.terms)-1].token
		}
		heir := s.hosts[to].proc.Load().claim.prefix // <candidate>/<incarnation>/
		s.mu.Unlock()
		request := map[string]any{"v": 1, "kind": "hand-over", "election": election, "nonce": fmt.Sprint("n", token), "token": token}
		switch kind {
		case 0: // to anybody
		case 1:
			request["to"] = "ghost"
		case 2:
			request["kind"] = "card"
			request["card"] = map[string]any{
				"id": "ghost", "incarnation": "ghost", "role": "following", "healthy": true,
				"priority": 99, "running_ns": time.Hour, "healthy_for_ns": time.Hour,
			}
		default:
			if parts := strings.Split(heir, "/"); len(parts) > 2 {
				request["to"] = parts[1]
			}
		}
		message, err := json.Marshal(request)
		if err != nil {
			panic(err)
		}
		for _, n := range s.nodes {
			n.redis.Publish(s.keys.Ask, string(message))
		}
	}, "a request to all (%d, host %d)", kind, to)
}
