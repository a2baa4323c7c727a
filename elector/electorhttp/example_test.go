package electorhttp_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// A service that any replica answers for, and only the leader executes: writes to one ledger.
func ExampleForward() {
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
	ledger := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "booked under the token", elector.TermOf(r.Context()).Token())
	})
	l, err := electorhttp.Listen(ctx, "0.0.0.0:8080")
	if err == nil {
		err = electorhttp.Forward(ctx, e, ledger, l, electorhttp.ForwardConfig{})
	}
	if err != nil {
		slog.Error("ledger", "error", err)
	}
}
