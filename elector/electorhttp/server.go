package electorhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/mandate-dev/mandate/elector/electorhttp/webguard"
)

// Listen listens on an address of the form host:port. Without a host it listens on the
// loopback interface, because not everyone should reach what is served here. Write
// 0.0.0.0:port or [::]:port to be reached from elsewhere.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%q is no address: give host:port, such as 127.0.0.1:8080", addr)
	}
	host = cmp.Or(host, "127.0.0.1")
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port)) // the text of an error has "listen tcp" and the address
}

// NewServer makes a server that limits what a client may cost: the time to send a
// request (10 s, its headers 5 s), the time for the answer (another 9 s; 5 s for each
// piece of a stream), and the size of headers (16 KiB).
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readTimeout / 2, ReadTimeout: readTimeout,
		WriteTimeout: queryTimeout + writeTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
		ErrorLog: discarded,
	}
}

// discarded is for the errors of clients that have disconnected.
var discarded = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)

// shutdownTimeout is how long requests under way may take after the end of Serve's context.
const shutdownTimeout = 2 * time.Second

// Serve serves until ctx ends, and then lets requests under way finish for at most 2 s
// (the streams of a Handler end with its Run). It closes the listener. The error is
// nil after ctx has ended, or that of the listener. Use it for a Handler that is
// mounted beside other handlers; use [Handler.Serve] for a Handler alone.
func Serve(ctx context.Context, server *http.Server, l net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	var broken error
	select {
	case broken = <-served:
	case <-ctx.Done():
	}
	shutdown(server, shutdownTimeout)
	return broken
}

// shutdown lets requests under way finish for at most so long.
func shutdown(server *http.Server, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close() // cut off what is still under way
	}
}

// Serve runs the Handler and serves it until ctx ends, and then lets requests under way
// finish for at most 2 s. It closes the listener. The error is nil after ctx has ended,
// or that of the listener, or of Run.
//
// No other machine has a name for a loopback address, so there Serve refuses all names but
// localhost and IP addresses: a web site can point a name of its own at this server and read the
// answers in its visitors' browsers. On any other address, and if the Handler is mounted on a
// server of yours, you must protect the server.
func (h *Handler) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	followed := make(chan error, 1)
	go func() {
		defer cancel() // Run returns at once if the Handler runs already
		followed <- h.Run(ctx)
	}()
	refusals := webguard.Refusals{Log: h.cfg.Logger}
	addr, _ := l.Addr().(*net.TCPAddr)
	loopback := addr != nil && addr.IP.IsLoopback()
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Browsers always send a Host header; some health checks of load balancers send none.
		if loopback && r.Host != "" && refusals.Foreign(r, nil) {
			refuse(w, http.StatusMisdirectedRequest, "not served under this name: write localhost, or the IP address")
			return
		}
		h.ServeHTTP(w, r)
	}))
	server.RegisterOnShutdown(cancel) // ends Run, and so the streams, also when the listener has failed
	broken := Serve(ctx, server, l)
	return errors.Join(<-followed, broken)
}
