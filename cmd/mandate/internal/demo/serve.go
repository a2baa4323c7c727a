package demo

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// stepPause lets a viewer of the page see what a step has changed.
const stepPause = 6 * time.Second

// Serve repeats the steps on the console's page, whose buttons need the token, until ctx ends. A
// viewer may use the buttons; a step that fails because of that is skipped.
func Serve(ctx context.Context, p *output.Printer, l net.Listener, token string, log *slog.Logger) error {
	c, err := newCluster(p, log)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.moreElections(log); err != nil {
		return err
	}
	q, err := c.connect(nil)
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }()
	page, err := console.New(console.Config{Quorum: q, Token: token, Logger: log})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- page.Serve(ctx, l)
	}()
	c.repeat(ctx)
	cancel()
	return <-served
}

func (c *cluster) repeat(ctx context.Context) {
	all := steps()
	for round := 0; ctx.Err() == nil; round++ {
		for i, st := range all {
			if round > 0 && i == 0 {
				continue // the first step is the first election
			}
			if i > 0 && !c.catchUp(ctx) || i == len(all)-1 && c.before.who == nil {
				break // there is no leader, or no former leader that could write late
			}
			c.out.Println("\n%s", c.out.Paint(output.Bold, st.title))
			if _, _, err := c.play(ctx, i, st); err != nil && ctx.Err() == nil {
				c.note("this time it did not happen: %v", err)
			}
			if i != len(all)-2 { // the candidate that was cut off is reconnected in the last step
				c.repair()
			}
			if pause(ctx, stepPause); ctx.Err() != nil {
				return
			}
		}
		c.forget()
	}
}

// moreElections adds two elections of the same candidates, so that the page has more to show.
func (c *cluster) moreElections(log *slog.Logger) error {
	for _, a := range c.candidates {
		for _, cfg := range []elector.Config{
			{Election: "mailer", Lease: 4 * time.Second},
			{Election: "reports", Lease: 3 * time.Second, Succession: elector.SuccessionRotation, MaxTerm: 20 * time.Second},
		} {
			cfg.ID, cfg.Advertise, cfg.Version, cfg.Logger, cfg.Cooldown = a.name, a.name+".example:8080", demoVersion, log, time.Second
			e, err := elector.New(a.quorum, cfg)
			if err != nil {
				return err
			}
			c.wg.Go(func() {
				_ = e.Run(c.ctx, func(ctx context.Context, _ *elector.Term) error { // it ends with the cluster
					<-ctx.Done()
					return nil
				})
			})
		}
	}
	return nil
}
