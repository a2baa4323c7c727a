package servertest_test

import (
	"context"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest/servertest"
)

// testWorkerOutlivesRedis would be your func TestWorkerOutlivesRedis.
func testWorkerOutlivesRedis(t *testing.T) {
	s := servertest.Redis(t, servertest.AOF...)
	q, err := elector.Open(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	e, err := elector.New(q, elector.Config{Election: "orders", Lease: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- e.Run(ctx, func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			return nil
		})
	}()
	servertest.Eventually(t, time.Minute, "it leads", e.IsLeader)

	s.Kill() // as a crash of the server would
	servertest.Eventually(t, time.Minute, "its term has ended", func() bool { return !e.IsLeader() })
	s.Restart(t) // with what it had on disk
	servertest.Eventually(t, time.Minute, "it leads again", e.IsLeader)

	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What a worker does when its Redis crashes and comes back, on a real server.
func Example() {
	_ = testWorkerOutlivesRedis // above
}
