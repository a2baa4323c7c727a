package healthhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/mandate-dev/mandate/health"
	"github.com/mandate-dev/mandate/health/healthhttp"
)

func Example() {
	ping := health.Func(func(context.Context) error { return nil }) // such as health.Func(db.PingContext)
	election := func() error { return nil }                         // such as the Check method of an elector

	handler := healthhttp.New()
	if err := handler.AddReadyProbe("db", ping, health.Settings{Interval: 5 * time.Second}); err != nil {
		panic(err)
	}
	if err := handler.AddReadyCheck("election", election); err != nil {
		panic(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- handler.Run(ctx) }()

	server := httptest.NewServer(handler)
	for range 100 { // until the first answer of the probe is in
		resp, err := http.Get(server.URL + "/ready")
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			fmt.Println(resp.Status)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	server.Close()
	http.DefaultClient.CloseIdleConnections()

	cancel()
	fmt.Println(<-done)
	// Output:
	// 200 OK
	// <nil>
}
