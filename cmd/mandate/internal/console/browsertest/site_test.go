package browsertest

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/console/consoletest"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electortest"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

const token = "a-token-that-is-long-enough"

// site is a console on a port, on a Redis of its own; both on the real clock.
type site struct {
	t     *testing.T
	redis *electortest.Redis
	url   string
	stop  func()
}

func startSite(t *testing.T) *site {
	t.Helper()
	r := electortest.Start(t)
	return serve(t, r, r.Quorum("console"))
}

// serve starts a console that votes with a quorum.
func serve(t *testing.T, r *electortest.Redis, q *elector.Quorum) *site {
	t.Helper()
	c, err := console.New(console.Config{Quorum: q, Token: token, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := electorhttp.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- c.Serve(ctx, l) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return &site{t, r, "http://" + l.Addr().String() + "/", stop}
}

// candidate campaigns until the test ends.
func (s *site) candidate(election, id string) *elector.Elector {
	s.t.Helper()
	return consoletest.Candidate(s.t, s.redis, election, id)
}
