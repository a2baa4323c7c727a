package main

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

const serveHelp = `Campaign on behalf of another process, in any language, and report over HTTP
whether it leads. Run one mandate serve beside each replica. It leads only while
all --health-url answer 2xx.

  GET /leader   200 on the leader, 503 elsewhere; token and valid_for_ms: for
                how long the program may work, counted from before the request
  GET /events   every change, as server-sent events
  GET /status, /live, /ready, /metrics
  POST /resign  with --http-token-file

The program works only while /leader answers 200, repeats the request within
valid_for_ms, and stops if mandate does not answer. valid_for_ms is at most
--grace: all promises lapse within --grace of the end of a term, and then the
lock is released. mandate serve cannot stop the program by force; mandate run
can.

docs/http.md has the rules, examples/ clients in Python and Node.`

func serveCommand(c *connection) *cobra.Command {
	var o campaignFlags // serve uses only some of them
	cmd := &cobra.Command{
		Use:   "serve --election NAME --health-url URL",
		Short: "Campaign on behalf of another process, report over HTTP",
		Long:  serveHelp,
		Example: `  mandate serve --election poller --health-url http://127.0.0.1:8000/healthz
  curl -i http://127.0.0.1:7480/leader`,
		Args: noNames(": the election is given with --election"),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.election, "election", "", "`NAME` that all candidates share (required)")
	o.candidate.flag(f, "", "health-url", "http", "leads only while GET of `URL` answers 2xx; may be repeated")
	o.http.add(f, "127.0.0.1:7480", "`ADDR` to listen on; without a host it is the loopback interface")
	c.duration(f, &o.lease, "lease", 10*time.Second, 50*time.Millisecond, "how long a lock lives unless renewed; the same for all candidates")
	c.duration(f, &o.grace, "grace", 0, time.Millisecond, "time to stop before the lock is released, and the maximum of valid_for_ms (default a fifth of the lease)")
	c.duration(f, &o.cooldown, "cooldown", 0, 0, "no campaign for this time after a probe failed; doubles with each consecutive failure (default the lease)")
	f.StringVar(&o.id, "id", "", "this candidate's name (default: host, process and a random part)")
	f.StringVar(&o.advertise, "advertise", "", "where the leader can be reached (`ADDR` is free text)")
	o.succession.add(c.terminal, cmd)
	c.duration(f, &o.interval, "probe-interval", 0, time.Millisecond, "time between two checks of each URL (default 1s)")
	c.duration(f, &o.timeout, "probe-timeout", 0, time.Millisecond, "time limit of one check (default 1s)")
	f.IntVar(&o.failures, "probe-failures", 3, "consecutive failures until it counts as unhealthy")
	var s *sidecar
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		s, err = newSidecar(c, cmd, &o)
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w, err := s.listen(cmd.Context(), o.http, s.grace)
		if err != nil {
			return err
		}
		return w.serveDuring(func() error { return s.campaign(cmd.Context(), w.untilPromisesLapse(s.work)) })
	}
	return cmd
}

// campaign campaigns until a signal. After a second signal it does not wait until the promises
// have lapsed: it leaves the lock to lapse, which is later.
func (s *sidecar) campaign(ctx context.Context, work elector.Work) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	force, end := s.onSignals(func(os.Signal) { stop() }, "exits without waiting for the release of the lock", syscall.SIGHUP)
	defer end()
	return untilForced(force, s.systemd(), new(sync.Mutex), func() error { return s.elector.Run(ctx, work) })
}

// newSidecar turns the flags into a sidecar.
func newSidecar(c *connection, cmd *cobra.Command, o *campaignFlags) (*sidecar, error) {
	if o.election == "" {
		c.problem("--election is missing: give the name that all candidates of this election share")
	}
	cfg, grace, _ := o.config(c.terminal, cmd.Flags())
	cfg.ProbeSettings = o.probeFlags.settings(c.terminal)
	if len(o.candidate) == 0 {
		c.problem("--health-url is missing: a program that hangs would lead forever; give a URL that answers 2xx while it is healthy")
	}
	cfg.Probe = o.probeFlags.checked(c.terminal, "", o.candidate, 0)
	o.http.read(cmd.Context(), c.terminal)
	k, err := c.candidate(o, cfg, nil)
	if err != nil {
		return nil, err
	}
	return &sidecar{candidate: k, grace: grace, log: c.log.With("election", o.election)}, nil
}

// sidecar is the work of a candidate on behalf of a program that runs elsewhere, which it can
// neither observe nor stop.
type sidecar struct {
	candidate

	grace time.Duration
	log   *slog.Logger
}

// work returns when the grace is over: the program may not work then. The lease is held until then, and until
// every promise of /leader has lapsed.
func (s *sidecar) work(ctx context.Context, term *elector.Term) error {
	<-ctx.Done()
	s.log.Info("program must stop", "token", term.Token(), "grace", s.grace, "reason", context.Cause(ctx).Error())
	time.Sleep(s.grace)
	return nil
}
