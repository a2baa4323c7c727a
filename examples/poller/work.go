package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/examples/internal/cli"
	"github.com/mandate-dev/mandate/health"
	"github.com/mandate-dev/mandate/health/healthhttp"
)

// worker is one instance of the program: it consumes the queue, and feeds it when elected.
type worker struct {
	id, http   string
	lease      time.Duration
	stall      time.Duration // how long the poll loop may make no progress
	interval   time.Duration
	batch      int
	late       time.Duration
	stallAfter time.Duration
	claimAfter time.Duration
}

func (a *app) workCommand() *cobra.Command {
	w := &worker{}
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Run one worker: consume the queue, and feed it when elected",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if w.interval <= 0 || w.batch <= 0 || w.late <= 0 || w.stall <= 0 || w.claimAfter <= 0 || w.stallAfter < 0 {
				return errors.New("--interval, --batch, --late, --stall and --claim-after must be above 0, --stall-after not negative")
			}
			if w.id == "" {
				host, _ := os.Hostname()
				w.id = fmt.Sprintf("%s-%d", host, os.Getpid())
			}
			return a.withDatabase(cmd, func(ctx context.Context, db *database) error { return w.run(ctx, a, db) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&w.id, "id", "", "this worker's name (default: host name and process id)")
	f.StringVar(&w.http, "http", "127.0.0.1:0", "where to serve /live, /ready and /leader (port 0: a free one)")
	f.DurationVar(&w.lease, "lease", 5*time.Second, "a leader that dies is replaced after it; the same for all workers")
	f.DurationVar(&w.stall, "stall", 3*time.Second, "a leader whose polling makes no progress for so long is replaced")
	f.DurationVar(&w.interval, "interval", 100*time.Millisecond, "time between polls of the table")
	f.IntVar(&w.batch, "batch", 500, "events per poll, and per round trip to the queue")
	f.DurationVar(&w.late, "late", 30*time.Second, "how late a row with a lower id may commit and still be fed")
	f.DurationVar(&w.claimAfter, "claim-after", 5*time.Second, "what a consumer took and did not finish for so long is given to another")
	f.DurationVar(&w.stallAfter, "stall-after", 0, "hang when leading for so long, to see the takeover (0: don't)")
	return cmd
}

func (w *worker) run(ctx context.Context, a *app, db *database) error {
	q, err := openQueue(a.queueURL())
	if err != nil {
		return err
	}
	defer q.close()
	quorum, err := elector.Open(a.urls()...)
	if err != nil {
		return err
	}
	defer quorum.Close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", w.http)
	if err != nil {
		return err
	}
	defer listener.Close()

	log := a.log.With("worker", w.id)
	feeder := &feeder{
		db: db, queue: q, beat: health.NewHeartbeat(w.stall), log: log, worker: w.id,
		interval: w.interval, batch: w.batch, late: w.late, stallAfter: w.stallAfter,
	}
	consumer := &consumer{
		db: db, queue: q, beat: health.NewHeartbeat(time.Minute), log: log, worker: w.id, batch: 100, claimAfter: w.claimAfter,
	}
	database, writable := health.SQL(db), health.Func(q.writable(w.id))
	candidate, err := elector.New(quorum, elector.Config{
		Election: a.election, ID: w.id, Advertise: advertised(listener.Addr()), Lease: w.lease, Logger: log,
		// A worker that can't read the table or write to the queue must not be elected ...
		Probe: health.All(health.Named("database", database), health.Named("queue", writable)),
		// ... and a leader that makes no progress with it must not remain leader.
		WorkProbe:         health.Named("poll loop", feeder.beat),
		WorkProbeSettings: health.Settings{Interval: w.stall / 4},
	})
	if err != nil {
		return err
	}
	checks, err := readiness(candidate, consumer, database, writable)
	if err != nil {
		return err
	}
	if err := awaitQueue(ctx, q, log); err != nil {
		return err
	}
	log.Info("working", "http", listener.Addr().String())
	return serve(ctx, listener, checks, candidate, feeder, consumer)
}

// advertised returns the URL at which others can reach this worker.
func advertised(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return "http://" + net.JoinHostPort(host, port)
}

// awaitQueue waits for the queue's Redis, which may come up after the worker.
func awaitQueue(ctx context.Context, q *queue, log *slog.Logger) error {
	for {
		err := q.createGroup(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		log.Warn("the queue can't be used yet", "error", err)
		cli.Pause(ctx, time.Second)
	}
}

// readiness returns the handler of /live and /ready.
func readiness(candidate *elector.Elector, c *consumer, database, writable health.Probe) (*healthhttp.Handler, error) {
	c.beat.Arm() // a consumer that makes no progress needs a restart
	h := healthhttp.New()
	return h, errors.Join(
		h.AddLiveProbe("consumer", c.beat, health.Settings{}),
		h.AddReadyProbe("database", database, health.Settings{}),
		h.AddReadyProbe("queue", writable, health.Settings{}),
		h.AddReadyCheck("election", candidate.Check),
	)
}

// serve runs all parts; when one fails, the others are stopped.
func serve(ctx context.Context, l net.Listener, checks *healthhttp.Handler, candidate *elector.Elector, f *feeder, c *consumer) error {
	mux := http.NewServeMux()
	mux.Handle("/", checks)
	mux.HandleFunc("GET /leader", func(rw http.ResponseWriter, r *http.Request) { leader(rw, r, candidate) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return candidate.Run(ctx, f.lead) })
	g.Go(func() error {
		c.run(ctx)
		return nil
	})
	g.Go(func() error { return checks.Run(ctx) })
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			return server.Close()
		}
		return nil
	})
	return g.Wait()
}

// leader serves GET /leader: 200 with the leader, or 503 if there is none or it is unknown.
func leader(w http.ResponseWriter, r *http.Request, candidate *elector.Elector) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	who, err := candidate.Election().Leader(r.Context())
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
		return
	}
	_ = json.NewEncoder(w).Encode(struct {
		Leader elector.Leader `json:"leader"`
		Me     bool           `json:"me"`
	}{who, candidate.IsLeader()})
}
