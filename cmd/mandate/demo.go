package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// demoLimit ends a demo that got stuck. It takes about ten seconds.
const demoLimit = 28 * time.Second

func (a *app) demoCommand() *cobra.Command {
	var onPage bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch elections and failures on embedded Redis",
		Long: `Run three small Redis nodes and three candidates in this process, and show an
election, a handover, a leader that hangs, a Redis that hangs, a leader that is
cut off, and a late write of a former leader. All times are measured while it
runs. It takes about ten seconds; --log-level debug also shows the candidates'
log.

With --console the demo repeats on the page of mandate console (an address may
follow; default ` + defaultConsole + `) until it is interrupted.

Exit codes: 0 all steps happened, 1 one did not, 130 ended by SIGINT.`,
		Example: "  mandate demo\n  mandate demo --console",
		Args: func(cmd *cobra.Command, args []string) error {
			if onPage {
				return cobra.MaximumNArgs(1)(cmd, args)
			}
			return noNames(": it has its own election")(cmd, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if onPage {
				a.checkAddress(cmd.Context(), "--console", append(args, defaultConsole)[0])
			}
			return a.usage()
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			log := slog.New(slog.DiscardHandler)
			if a.logLevel == "debug" {
				log = a.log
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			var err error
			if onPage {
				err = a.playConsole(ctx, append(args, defaultConsole)[0], log)
			} else {
				err = playDemo(ctx, newPaper(a.stdout), log)
			}
			if ctx.Err() != nil {
				return &exitError{code: exitInterrupted, err: errors.New("interrupted"), quiet: true}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&onPage, "console", false, "show it on a page until interrupted; an address to listen on may follow")
	return cmd
}

// step is one scene of the demo. It returns what to say about it in the summary
// and the time it measured.
type step struct {
	title, short string
	play         func(context.Context, *stage) (what, measured string, err error)
}

func demoSteps() []step {
	return []step{
		{"Three candidates campaign: one is elected", "election", elect},
		{"The leader resigns: a planned handover", "handover", handOver},
		{"The leader's work hangs, but its process is alive", "work hangs", stall},
		{"One of the three Redis nodes hangs: no effect", "Redis hangs", hangNode},
		{"The leader is cut off without releasing the lock", "leader cut off", cutOff},
		{"The former leader returns and writes with its old token", "stale write", staleWrite},
	}
}

// playDemo plays all steps, up to the first one that didn't happen.
func playDemo(ctx context.Context, p *paper, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	s, err := newStage(p, log)
	if err != nil {
		return err
	}
	defer s.close()
	p.line("%s", p.bold("mandate demo"))
	p.line("Three Redis nodes and three candidates in this process. The lease is %v: the", demoLease)
	p.line("longest time that a dead leader can keep the others waiting.")
	began := time.Now()
	steps := demoSteps()
	rows := make([]row, len(steps))
	for i, st := range steps {
		rows[i] = row{title: st.short, what: "not reached"}
	}
	for i, st := range steps {
		p.line("\n%s", p.bold(fmt.Sprintf("%d  %s", i+1, st.title)))
		what, measured, stepErr := st.play(ctx, s)
		if ctx.Err() != nil && stepErr == nil {
			stepErr = context.Cause(ctx)
		}
		if stepErr != nil {
			rows[i].what = "DID NOT HAPPEN: " + stepErr.Error()
			err = fmt.Errorf("step %d did not happen: %w", i+1, stepErr)
			break
		}
		rows[i] = row{title: st.short, what: what, measured: measured, ok: true}
		pauseFor(ctx, 400*time.Millisecond) // so that one can read along
	}
	p.summary(rows, time.Since(began))
	return err
}

// elect starts the candidates and waits for the first leader.
func elect(ctx context.Context, s *stage) (string, string, error) {
	began := time.Now()
	s.start()
	first, err := s.await(ctx, func(f fact) bool { return f.kind == starts })
	if err != nil {
		return "", "", err
	}
	s.leader = first
	return first.who.name + " leads, the others wait", "after " + ms(first.at.Sub(began)), nil
}

// handOver measures the time between the end of the old leader's work and the
// start of the next one's.
func handOver(ctx context.Context, s *stage) (string, string, error) {
	old := s.leader
	s.say(old.who, "resigns: its work stops, then it releases the lock")
	if err := old.who.elector.Resign(ctx); err != nil {
		return "", "", err
	}
	stopped, next, err := s.succession(ctx, old)
	if err != nil {
		return "", "", err
	}
	gap := ms(next.at.Sub(stopped.at))
	s.note("no candidate worked for %s, and never two at the same time", gap)
	return old.who.name + " -> " + next.who.name, "gap " + gap, nil
}

// stall lets the leader's work stop beating.
func stall(ctx context.Context, s *stage) (string, string, error) {
	old := s.leader
	old.who.stalled.Store(true)
	at := time.Now()
	s.say(old.who, "'s work hangs. Its process is alive and could renew forever")
	told, err := s.await(ctx, func(f fact) bool { return f.kind == told && f.token == old.token })
	if err != nil {
		return "", "", err
	}
	_, next, err := s.succession(ctx, old)
	if err != nil {
		return "", "", err
	}
	s.note("detected after %s (bound: %v); no lease had to expire", ms(told.at.Sub(at)), demoBeat)
	return old.who.name + " stepped down -> " + next.who.name, "after " + ms(next.at.Sub(at)), nil
}

// hangNode lets one Redis accept and never answer, for a few renewals.
func hangNode(ctx context.Context, s *stage) (string, string, error) {
	const during = 1800 * time.Millisecond
	lead := s.leader
	term := lead.who.elector.Term()
	if term == nil {
		return "", "", errors.New("nobody leads")
	}
	unhang := s.hang(2)
	defer unhang()
	s.note("node 3 accepts connections but does not answer, for %v", during)
	before, renewals := lead.who.elector.Stats().Renewals.Confirmed, uint64(0)
	for end := time.Now().Add(during); time.Now().Before(end) && ctx.Err() == nil; pauseFor(ctx, 5*time.Millisecond) {
		if !term.Valid() {
			<-term.Done() // the reason comes by a timer
			return "", "", fmt.Errorf("the leader lost its term: %w", term.Err())
		}
		renewals = lead.who.elector.Stats().Renewals.Confirmed - before
	}
	if renewals < 2 {
		return "", "", fmt.Errorf("only %d renewals in %v", renewals, during)
	}
	s.say(lead.who, fmt.Sprintf("remained leader: %d renewals on the other two nodes", renewals))
	unhang()
	return lead.who.name + " remains leader", fmt.Sprintf("%d renewals", renewals), nil
}

// cutOff closes all connections of the leader, for good: to the others it is
// dead. It must stop by its own clock before its lease ends.
func cutOff(ctx context.Context, s *stage) (string, string, error) {
	old := s.leader
	old.who.gate.shut()
	s.say(old.who, "loses all its connections and cannot release the lock")
	st, err := s.other(old.who).elector.Election().Status(ctx)
	if err != nil || st.Leader == nil {
		return "", "", errors.Join(errors.New("the lock was gone too early"), err)
	}
	end := time.Now().Add(st.Leader.LeaseLeft)
	s.note("its lease has %s left in Redis: the others must wait", ms(st.Leader.LeaseLeft))
	stopped, next, err := s.succession(ctx, old)
	if err != nil {
		return "", "", err
	}
	early, late := end.Sub(stopped.at), next.at.Sub(end)
	s.note("it stopped on its own clock, %s before its lease ended,", ms(early))
	s.note("the next leader followed %s after that", ms(max(0, late)))
	if early <= 0 {
		return "", "", errors.New("the old leader worked beyond its lease")
	}
	return old.who.name + " -> " + next.who.name, "lease + " + ms(max(0, late)), nil
}

// staleWrite shows what the token is for: a write that was under way when its
// leader was replaced.
func staleWrite(ctx context.Context, s *stage) (string, string, error) {
	old, now := s.before, s.leader
	old.who.gate.open()
	ok, err := s.write(ctx, now)
	if err != nil || !ok {
		return "", "", errors.Join(errors.New("the leader's write was refused"), err)
	}
	s.say(now.who, fmt.Sprintf("writes with token %d: accepted", now.token))
	ok, err = s.write(ctx, old)
	if err != nil || ok {
		return "", "", errors.Join(errors.New("the old leader's write was accepted"), err)
	}
	s.say(old.who, fmt.Sprintf("writes with token %d: refused, a smaller one", old.token))
	value, err := s.register(ctx)
	if err != nil || value != now.who.name {
		return "", "", errors.Join(fmt.Errorf("the register holds %q", value), err)
	}
	s.note("the register still holds what %s wrote", now.who.name)
	return "of " + old.who.name + ", refused", "token check", nil
}

// pauseFor sleeps for d, or until ctx ends.
func pauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// ms writes a measured time with as many digits as mean something.
func ms(d time.Duration) string {
	f := float64(d) / float64(time.Millisecond)
	if f < 100 {
		return fmt.Sprintf("%.1f ms", f)
	}
	return fmt.Sprintf("%.0f ms", f)
}
