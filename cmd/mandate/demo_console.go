package main

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/elector"
)

// stepPause lets whoever looks at the page see what a step has left behind.
const stepPause = 6 * time.Second

// playConsole plays the story again and again, on the console's page, until ctx
// ends. Whoever looks may steer; then a step may not happen, and the story just
// goes on.
func (a *app) playConsole(ctx context.Context, addr string, log *slog.Logger) error {
	l, err := listenOn(ctx, "--console", addr)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	p := newPaper(a.stdout)
	s, err := newStage(p, log)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.extras(log); err != nil {
		return err
	}
	q, err := s.quorum()
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }()
	token := rand.Text()
	c, err := console.New(console.Config{Quorum: q, Token: token, Logger: log})
	if err != nil {
		return err
	}
	p.line("%s", p.bold("mandate demo, on a page: until you interrupt it"))
	a.announce(l, token, true)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- c.Serve(ctx, l)
	}()
	s.repeat(ctx)
	cancel()
	return <-served
}

// repeat plays the steps until ctx ends.
func (s *stage) repeat(ctx context.Context) {
	steps := demoSteps()
	for round := 0; ctx.Err() == nil; round++ {
		for i, st := range steps {
			if round > 0 && i == 0 {
				continue // they have been elected
			}
			if i > 0 && !s.catchUp(ctx) || i == len(steps)-1 && s.before.who == nil {
				break // nobody leads, or nobody has stopped who could write late
			}
			s.paper.line("\n%s", s.paper.bold(st.title))
			if _, _, err := st.play(ctx, s); err != nil && ctx.Err() == nil {
				s.note("this time it did not happen: %v", err)
			}
			if !s.mend(ctx, i) {
				return
			}
		}
		s.forget()
	}
}

// mend undoes what a step that broke off has left, and pauses.
func (s *stage) mend(ctx context.Context, step int) bool {
	if step != len(demoSteps())-2 { // the one that is cut off is connected in the last step
		for _, a := range s.cast {
			a.gate.open()
			a.stalled.Store(false)
		}
	}
	pauseFor(ctx, stepPause)
	return ctx.Err() == nil
}

// catchUp waits for whoever leads now: it needn't be whom the last step left
// there. False: nobody does, or ctx ended.
func (s *stage) catchUp(ctx context.Context) bool {
	_, err := s.await(ctx, func(f fact) bool {
		if t := f.who.elector.Term(); f.kind != starts || t == nil || t.Token() != f.token {
			return false
		}
		if f.token != s.leader.token {
			s.before, s.leader = s.leader, f
		}
		return true
	})
	return err == nil
}

// forget drops the facts of the rounds before: the story has no end.
func (s *stage) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.facts[:0]
	for _, f := range s.facts {
		if f.token == s.leader.token {
			last = append(last, f)
		}
	}
	s.facts = last
}

// extras are two more elections of the same candidates, so that the page has
// something to compare.
func (s *stage) extras(log *slog.Logger) error {
	for _, a := range s.cast {
		for _, cfg := range []elector.Config{
			{Election: "mailer", Lease: 4 * time.Second},
			{Election: "reports", Lease: 3 * time.Second, Succession: elector.SuccessionRotation, MaxTerm: 20 * time.Second},
		} {
			cfg.ID, cfg.Advertise, cfg.Logger, cfg.Cooldown = a.name, a.name+".example:8080", log, time.Second
			e, err := elector.New(a.quorum, cfg)
			if err != nil {
				return err
			}
			s.wg.Go(func() {
				_ = e.Run(s.ctx, func(ctx context.Context, _ *elector.Term) error { // it ends with the stage
					<-ctx.Done()
					return nil
				})
			})
		}
	}
	return nil
}

// quorum is one of the stage's nodes, with connections that nothing cuts.
func (s *stage) quorum() (*elector.Quorum, error) {
	var clients []redis.UniversalClient
	for _, m := range s.nodes {
		clients = append(clients, redis.NewClient(&redis.Options{Addr: m.Addr()}))
	}
	q, err := elector.NewQuorum(clients...)
	for _, c := range clients {
		_ = c.Close() // only its options were needed
	}
	return q, err
}
