package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electorhttp/webguard"
	"github.com/mandate-dev/mandate/elector/electorprom"
)

// httpFlags are those of the commands that tell over HTTP who leads.
type httpFlags struct {
	addr, tokenFile string
	hosts           []string
}

func (a *app) httpFlags(f *pflag.FlagSet, o *httpFlags, addr, usage string) {
	f.StringVar(&o.addr, "http", addr, usage)
	f.StringArrayVar(&o.hosts, "http-host", nil, "host `NAME` to answer under besides localhost and IP addresses; may be repeated")
	f.StringVar(&o.tokenFile, "http-token-file", "", "enables POST /resign and /transfer, with the token that this `FILE` holds")
}

// checkNames refuses what no request can ask for.
func (a *app) checkNames(flag string, names []string) {
	for _, name := range names {
		if err := webguard.CheckName(name); err != nil {
			a.problem("%s: %q is %v", flag, name, err)
		}
	}
}

// checkAddress refuses what no machine can listen on; whether this one can is
// known when it does.
func (a *app) checkAddress(ctx context.Context, flag, addr string) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		a.problem("%s is %q, which is no address: give host:port, such as 127.0.0.1:8080", flag, addr)
	} else if _, err := net.DefaultResolver.LookupPort(ctx, "tcp", port); err != nil {
		a.problem("%s is %q: the port must be a number from 0 to 65535", flag, addr)
	}
}

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

// secret reads a token from a file. A flag with the token itself would show in
// every list of processes.
func (a *app) secret(flag, file string) string {
	b, err := os.ReadFile(file)
	token := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		a.problem("%s: %v", flag, err)
	case len(token) < 16:
		a.problem("%s: %s holds %d bytes: put at least 16 random ones there (openssl rand -hex 16)", flag, file, len(token))
	case strings.ContainsFunc(token, unicode.IsControl):
		a.problem("%s: %s holds several lines, or control characters, which no client can send: put one line there (openssl rand -hex 16)", flag, file)
	}
	return token
}

// web is the HTTP side of a candidate.
type web struct {
	app      *app
	handler  *electorhttp.Handler
	metrics  *electorprom.Collector
	listener net.Listener
}

// listen opens the port, so that a port that is taken is said before anything
// campaigns. nil without --http. What /leader promises holds for at most so long;
// 0: it promises nothing.
func (a *app) listen(ctx context.Context, o httpFlags, token string, e *elector.Elector, promise time.Duration) (*web, error) {
	if o.addr == "" {
		return nil, nil //nolint:nilnil // no HTTP was asked for; beside takes it as such
	}
	metrics := electorprom.New(e)
	h, err := electorhttp.New(e, electorhttp.Config{
		Token: token, Metrics: metrics.Handler(), Promise: cmp.Or(promise, -1), Hosts: o.hosts, Logger: a.log,
	})
	if err != nil {
		return nil, err
	}
	l, err := listenOn(ctx, "--http", o.addr)
	if err != nil {
		return nil, err
	}
	w := &web{a, h, metrics, l}
	a.log.Info("serving http", "address", w.url())
	return w, nil
}

// listenOn opens the port that a flag names.
func listenOn(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := electorhttp.Listen(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", flag, strings.TrimPrefix(err.Error(), "electorhttp: "))
	}
	return l, nil
}

// url is where to ask; empty without --http.
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

// beside serves while main runs, also while it stops: who asks is told that
// somebody else leads, and not that nobody answers. What happens to the port
// never touches the leadership.
func (w *web) beside(main func() error) error {
	if w == nil {
		return main()
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.handler.Serve(ctx, w.listener); err != nil {
			w.app.log.Error("http server stopped", "error", err)
		}
	})
	wg.Go(func() { _ = w.metrics.Run(ctx) }) // it fails only when it runs already
	defer wg.Wait()
	defer cancel()
	return main()
}
