package electorotel_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorotel"
)

// Each term is a span; what the work does in it are spans below.
func Example() {
	redis, err := miniredis.Run() // yours is a redis-server
	if err != nil {
		panic(err)
	}
	defer redis.Close()
	redis.ClockTTL(true)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()

	spans := tracetest.NewSpanRecorder() // yours is an exporter
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("poller")
	quorum, err := elector.Open("redis://" + redis.Addr())
	if err != nil {
		panic(err)
	}
	defer quorum.Close()
	candidate, err := elector.New(quorum, elector.Config{Election: "orders-poller", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	work := func(ctx context.Context, _ *elector.Term) error {
		_, poll := tracer.Start(ctx, "poll")
		poll.End()
		stop() // as SIGTERM would
		return nil
	}
	if err := candidate.Run(ctx, electorotel.Work(tracer, candidate, work)); err != nil {
		panic(err)
	}
	for _, span := range spans.Ended() {
		fmt.Println(span.Name(), "below another span:", span.Parent().IsValid())
	}
	// Output:
	// poll below another span: true
	// mandate.term below another span: false
}
