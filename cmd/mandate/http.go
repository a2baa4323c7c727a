package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electorprom"
	"github.com/mandate-dev/mandate/elector/shard"
)

// token checks the address, and reads the file.
func (a *app) token(ctx context.Context, o httpFlags) string {
	if o.addr != "" {
		a.checkAddress(ctx, "--http", o.addr)
	}
	a.checkNames("--http-host", o.hosts)
	if o.addr == "" && len(o.hosts) > 0 {
		a.problem("--http-host is given without --http: give the address to listen on")
	}
	if o.tokenFile == "" {
		return ""
	}
	if o.addr == "" {
		a.problem("--http-token-file is given without --http: give the address to listen on")
		return ""
	}
	return a.secret("--http-token-file", o.tokenFile)
}

// web is the HTTP side of a candidate.
type web struct {
	app      *app
	handler  *electorhttp.Handler   // of a candidate
	metrics  *electorprom.Collector // of a candidate
	group    *electorhttp.Group     // of a member of a group
	listener net.Listener
}

// listen opens the port, so that a port that is taken is reported before anything
// campaigns. nil without --http. What /leader promises holds for at most so long;
// 0: it promises nothing.
func (a *app) listen(ctx context.Context, o httpFlags, token string, promise time.Duration) (*web, error) {
	if o.addr == "" {
		return nil, nil //nolint:nilnil // HTTP was not requested; beside takes nil as such
	}
	w := &web{app: a}
	cfg := electorhttp.Config{Token: token, Promise: cmp.Or(promise, -1), Hosts: o.hosts, Logger: a.log}
	var err error
	if a.shardMember != nil {
		w.group, err = electorhttp.NewGroup(a.shardMember, cfg)
	} else {
		w.metrics = electorprom.New(a.elector)
		cfg.Metrics = w.metrics.Handler()
		w.handler, err = electorhttp.New(a.elector, cfg)
	}
	if err != nil {
		return nil, err
	}
	if w.listener, err = listenOn(ctx, "--http", o.addr); err != nil {
		return nil, err
	}
	a.log.Info("serving http", "address", w.url())
	return w, nil
}

// listenOn opens the port that a flag names.
func listenOn(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := electorhttp.Listen(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}

// url is where it answers; empty without --http.
func (w *web) url() string {
	if w == nil {
		return ""
	}
	return "http://" + w.listener.Addr().String()
}

// keeping is work whose lock is not released before what /leader promised has
// lapsed.
func (w *web) keeping(work elector.Work) elector.Work {
	if w == nil {
		return work
	}
	return w.handler.Work(work)
}

// keepingShard is the same of the work of each shard, and what /shards promised.
func (w *web) keepingShard(work shard.Work) shard.Work {
	if w == nil {
		return work
	}
	return w.group.Work(work)
}

// beside serves while main runs, also while it stops: a client then gets the answer that
// this candidate does not lead, not a refused connection. What happens to the port never
// touches the leadership.
func (w *web) beside(main func() error) error {
	if w == nil {
		return main()
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	serve := func(ctx context.Context, l net.Listener) error { return w.handler.Serve(ctx, l) }
	if w.group != nil {
		serve = w.group.Serve
	} else {
		wg.Go(func() { _ = w.metrics.Run(ctx) }) // it fails only when it runs already
	}
	wg.Go(func() {
		if err := serve(ctx, w.listener); err != nil {
			w.app.log.Error("http server stopped", "error", err)
		}
	})
	defer wg.Wait()
	defer cancel()
	return main()
}
