package electorhttp_test

import (
	"context"
	"log/slog"
	"os"
	"os/signal"

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
