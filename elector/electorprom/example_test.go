package electorprom_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorprom"
)

// The metrics of a candidate, in the registry of its program.
func Example() {
	q, err := elector.Open("redis://127.0.0.1:6379")
	if err != nil {
		panic(err)
	}
	defer q.Close()
	e, err := elector.New(q, elector.Config{Election: "orders"})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	metrics := electorprom.New(e)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	counted := make(chan error, 1)
	go func() { counted <- metrics.Run(ctx) }() // it counts what happens, beside e.Run

	families, err := registry.Gather() // as a scrape does: no I/O
	fmt.Println(len(families) > 0, err)
	stop()
	fmt.Println(<-counted)
	// Output:
	// true <nil>
	// <nil>
}
