package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// forwardFlags configure a port on every replica that takes the program's requests.
type forwardFlags struct {
	addr, to  string
	hold      time.Duration
	advertise string // the value of --advertise, which all candidates have
}

func (a *app) forwardFlags(cmd *cobra.Command, o *forwardFlags) {
	f := cmd.Flags()
	f.StringVar(&o.addr, "forward", "", "take the program's requests at `ADDR` on every replica; the leader's program answers them. Without a host it is the loopback interface")
	f.StringVar(&o.to, "forward-to", "", "with --forward: the `URL` of the program beside this replica")
	a.duration(f, &o.hold, "forward-hold", 0, 0, "with --forward: how long a request waits while no replica leads; 0: none waits (default the lease and 2s)")
}

// forwarding implements --forward; it is nil without that flag.
type forwarding struct {
	gate     elector.Gate
	program  *url.URL
	addr     string
	hold     time.Duration
	log      *slog.Logger
	handler  http.Handler
	listener net.Listener
	requests context.Context    // the base context of all requests
	cut      context.CancelFunc // cancels requests
}

// forwards turns the flags into a forwarding, and records flags that do not fit together.
func (a *app) forwards(cmd *cobra.Command, o *forwardFlags) *forwarding {
	f := cmd.Flags()
	if o.addr == "" {
		for _, name := range []string{"forward-to", "forward-hold"} {
			if f.Changed(name) {
				a.problem("--%s is given without --forward: give the address at which to take requests", name)
			}
		}
		return nil
	}
	if f.Changed("group") {
		a.problem("--forward is for one election: leave it out with --group; GET /owner?key=KEY names the owner of a shard")
	}
	a.checkAddress(cmd.Context(), "--forward", o.addr)
	program, err := url.Parse(o.to)
	switch {
	case o.to == "":
		a.problem("--forward-to is missing: give the URL of the program that answers the requests, such as http://127.0.0.1:8000")
	case err != nil || !isWebURL(program):
		a.problem("--forward-to is %q, which is no URL of a web server: give one such as http://127.0.0.1:8000", o.to)
	}
	a.checkForwardAdvertise(o)
	requests, cut := context.WithCancel(context.Background())
	return &forwarding{requests: requests, cut: cut, program: program, addr: o.addr, hold: orNone(o.hold, f.Changed("forward-hold")), log: a.log}
}

func isWebURL(u *url.URL) bool { return u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") }

// checkForwardAdvertise records an --advertise to which the other replicas cannot send requests. If
// it is not given, listen advertises the address of --forward; that is refused if it is the
// unspecified address.
func (a *app) checkForwardAdvertise(o *forwardFlags) {
	if o.advertise == "" {
		host, _, err := net.SplitHostPort(o.addr)
		if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
			a.problem("--advertise is missing: --forward %s listens everywhere; give the URL at which the other replicas reach it, such as http://10.0.0.7:8080", o.addr)
		}
		return
	}
	if !strings.Contains(o.advertise, "://") {
		if _, _, err := net.SplitHostPort(o.advertise); err == nil {
			return
		}
	} else if u, err := url.Parse(o.advertise); err == nil && isWebURL(u) {
		return
	}
	a.problem("--advertise is %q: with --forward give the URL at which the other replicas reach it, such as http://10.0.0.7:8080", o.advertise)
}

// listen opens the port, and advertises its address unless another one was given.
func (f *forwarding) listen(ctx context.Context, e *elector.Elector, h *electorhttp.Handler) (err error) {
	if f == nil {
		return nil
	}
	if f.handler, err = h.Forward(&f.gate, electorhttp.Program(f.program, nil), electorhttp.ForwardConfig{Hold: f.hold}); err != nil {
		return err
	}
	if f.listener, err = listenOn(ctx, "--forward", f.addr); err != nil {
		return err
	}
	if e.Advertise() == "" {
		err = e.SetAdvertise("http://" + f.listener.Addr().String())
	}
	f.log.Info("taking requests", "address", "http://"+f.listener.Addr().String(), "advertise", e.Advertise(), "program", f.program.Redacted())
	return err
}

// others is how long requests are still taken after this candidate has ended, so that the other
// replicas can learn who leads.
const others = time.Second

// abort cancels the requests under way, which otherwise may finish before the lock is released, and
// takes no more.
func (f *forwarding) abort() {
	if f != nil {
		f.cut()
	}
}

// serveDuring takes requests while main runs and a second longer. After abort it takes none.
func (f *forwarding) serveDuring(main func() error) error {
	if f == nil {
		return main()
	}
	ctx, cancel := context.WithCancel(f.requests)
	served := make(chan struct{})
	go func() {
		defer close(served)
		server := &http.Server{
			Handler: f.handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute,
			BaseContext: func(net.Listener) context.Context { return f.requests },
		}
		if err := electorhttp.Serve(ctx, server, f.listener); err != nil {
			f.log.Error("requests are not taken any more", "error", err)
		}
	}()
	err := main()
	time.AfterFunc(others, cancel)
	<-served
	cancel()
	f.cut()
	return err
}
