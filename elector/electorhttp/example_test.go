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
)

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
