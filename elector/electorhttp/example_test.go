package electorhttp_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electorprom"
)

// A worker that takes part, and tells who leads on a port of its own.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	q, err := elector.Open("redis://127.0.0.1:6379")
	if err != nil {
		log.Error("redis", "error", err)
		return
	}
	defer q.Close()
	e, err := elector.New(q, elector.Config{Election: "orders-poller", Logger: log})
	if err != nil {
		log.Error("configuration", "error", err)
		return
	}
	metrics := electorprom.New(e)
	h, err := electorhttp.New(e, electorhttp.Config{Metrics: metrics.Handler()})
	if err != nil {
		log.Error("configuration", "error", err)
		return
	}
	listener, err := electorhttp.Listen(ctx, ":0") // on the loopback interface, any port
	if err != nil {
		log.Error("listening", "error", err)
		return
	}
	if err := e.SetAdvertise("http://" + listener.Addr().String()); err != nil {
		log.Error("address", "error", err)
		return
	}
	go metrics.Run(ctx)
	go h.Serve(ctx, listener)
	err = e.Run(ctx, func(ctx context.Context, term *elector.Term) error {
		log.Info("polling", "token", term.Token())
		<-ctx.Done()
		return nil
	})
	if err != nil {
		log.Error("election", "error", err)
	}
}

// A service that any replica answers for, and only the leader executes: writes to one ledger.
func ExampleHandler_Forward() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	q, err := elector.Open("redis://127.0.0.1:6379")
	if err != nil {
		slog.Error("redis", "error", err)
		return
	}
	defer q.Close()
	// Where the other replicas reach this one.
	e, err := elector.New(q, elector.Config{Election: "ledger", Advertise: "http://10.0.0.7:8080"})
	if err != nil {
		slog.Error("configuration", "error", err)
		return
	}
	h, err := electorhttp.New(e, electorhttp.Config{})
	if err != nil {
		slog.Error("configuration", "error", err)
		return
	}
	ledger := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "booked under the token", r.Header.Get("Mandate-Token"))
	})
	var gate elector.Gate
	forward, err := h.Forward(&gate, ledger, electorhttp.ForwardConfig{})
	if err != nil {
		slog.Error("configuration", "error", err)
		return
	}
	server := &http.Server{Addr: ":8080", Handler: forward, ReadHeaderTimeout: 5 * time.Second}
	go server.ListenAndServe()
	go h.Run(context.WithoutCancel(ctx)) // until the end of the program: it follows the next leader, too
	if err := e.Run(ctx, gate.Work); err != nil {
		slog.Error("election", "error", err)
	}
	time.Sleep(time.Second) // the others learn who leads now
	server.Shutdown(context.Background())
}
