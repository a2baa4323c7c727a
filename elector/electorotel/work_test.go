package electorotel_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorotel"
	"github.com/mandate-dev/mandate/elector/electortest"
)

func TestSpanOfATerm(t *testing.T) {
	broken := errors.New("the table is gone")
	for name, c := range map[string]struct {
		end    func(r *electortest.Redis, e *elector.Elector, stop context.CancelFunc)
		work   error
		reason string
		status codes.Code
		told   bool
	}{
		"shutdown": {end: func(_ *electortest.Redis, _ *elector.Elector, stop context.CancelFunc) { stop() }, reason: "shutdown", told: true},
		"lost":     {end: func(r *electortest.Redis, e *elector.Elector, _ context.CancelFunc) { r.TakeLease(e) }, reason: "lost", status: codes.Error, told: true},
		"failed":   {work: broken, reason: "failed", status: codes.Error},
	} {
		t.Run(name, func(t *testing.T) {
			electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
				e, err := elector.New(r.Quorum("a"), elector.Config{Election: "orders", ID: "a", Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				spans := tracetest.NewSpanRecorder()
				provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
				tracer := provider.Tracer("test")
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				done := make(chan error, 1)
				var token uint64
				go func() {
					done <- e.Run(ctx, electorotel.Work(tracer, e, func(ctx context.Context, term *elector.Term) error {
						token = term.Token()
						_, step := tracer.Start(ctx, "step")
						step.End()
						if c.work != nil {
							return c.work
						}
						<-ctx.Done()
						return nil
					}))
				}()
				electortest.Advance(time.Second)
				if c.end != nil {
					c.end(r, e, stop)
				}
				electortest.Advance(10 * time.Second)
				stop()
				if err := <-done; !errors.Is(err, c.work) {
					t.Errorf("Run returned %v", err)
				}
				ended := spans.Ended()
				if len(ended) < 2 {
					t.Fatalf("%d spans", len(ended))
				}
				step, span := ended[0], ended[1]
				if span.Name() != "mandate.term" || step.Parent().SpanID() != span.SpanContext().SpanID() || span.Status().Code != c.status || (len(span.Events()) > 0 && span.Events()[0].Name == "term ended") != c.told {
					t.Errorf("%q with status %v and events %v", span.Name(), span.Status(), span.Events())
				}
				got := map[string]string{}
				for _, a := range span.Attributes() {
					got[string(a.Key)] = a.Value.Emit()
				}
				if got["mandate.reason"] != c.reason || got["mandate.election"] != "orders" || got["mandate.candidate"] != "a" || token == 0 {
					t.Errorf("attributes %v", got)
				}
			})
		})
	}
}
