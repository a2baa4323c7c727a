package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electorprom"
)

// read checks the flags, and reads the token from its file.
func (o *httpFlags) read(ctx context.Context, t *terminal) {
	if o.addr != "" {
		t.checkAddress(ctx, "--http", o.addr)
	}
	switch {
	case o.tokenFile == "":
	case o.addr == "":
		t.problem("--http-token-file is given without --http: give the address to listen on")
	default:
		o.token = t.secret("--http-token-file", o.tokenFile)
	}
}

// web is the HTTP server of a candidate.
type web struct {
	log      *slog.Logger
	handler  *electorhttp.Handler
	metrics  *electorprom.Collector
	listener net.Listener
}

// listen opens the port before anything campaigns, so that a port in use is reported first. It
// returns nil without --http. promise bounds how long an answer of /leader holds; with 0 /leader
// promises nothing.
func (k *candidate) listen(ctx context.Context, o httpFlags, promise time.Duration) (*web, error) {
	if o.addr == "" {
		return nil, nil //nolint:nilnil // HTTP was not requested; beside takes nil as such
	}
	w := &web{log: k.log, metrics: electorprom.New(k.elector)}
	var err error
	w.handler, err = electorhttp.New(k.elector, electorhttp.Config{
		Token: o.token, Promise: cmp.Or(promise, -1), Logger: k.log, Metrics: w.metrics.Handler(),
	})
	if err != nil {
		return nil, err
	}
	if w.listener, err = k.listenOn(ctx, o.addr); err != nil {
		return nil, err
	}
	k.log.Info("serving http", "address", w.url())
	return w, nil
}

// listenOn opens the port that --http names.
func (t *terminal) listenOn(ctx context.Context, addr string) (net.Listener, error) {
	l, err := electorhttp.Listen(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	if strings.HasPrefix(addr, ":") {
		t.log.Info("listening on the loopback interface only", "address", l.Addr().String(), "for_all_interfaces", "--http 0.0.0.0"+addr)
	}
	return l, nil
}

// url returns the URL of the server; empty without --http.
func (w *web) url() string {
	if w == nil {
		return ""
	}
	return "http://" + w.listener.Addr().String()
}

// untilPromisesLapse wraps work so that the lock is not released before the promises of /leader have lapsed.
func (w *web) untilPromisesLapse(work elector.Work) elector.Work {
	if w == nil {
		return work
	}
	return w.handler.Work(work)
}

// serveDuring serves HTTP while main runs, also during its shutdown: clients are then answered that this
// candidate does not lead, and are not refused a connection. A failure of the server does not
// affect the leadership.
func (w *web) serveDuring(main func() error) error {
	if w == nil {
		return main()
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.metrics.Run(ctx) }) // it fails only when it is running already
	wg.Go(func() {
		if err := w.handler.Serve(ctx, w.listener); err != nil {
			w.log.Error("http server stopped", "error", err)
		}
	})
	defer wg.Wait()
	defer cancel()
	return main()
}

// httpFlags are the flags of the commands that report the leader over HTTP.
type httpFlags struct {
	addr, tokenFile string
	token           string // that the file holds
}

func (o *httpFlags) add(f *pflag.FlagSet, addr, usage string) {
	f.StringVar(&o.addr, "http", addr, usage)
	f.StringVar(&o.tokenFile, "http-token-file", "", "enables POST /resign, with the token that this `FILE` holds")
}
