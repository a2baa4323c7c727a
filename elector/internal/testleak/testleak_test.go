package testleak

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

type mainFunc func() int

func (f mainFunc) Run() int { return f() }

// A closed pool whose dialer is still asleep is no leak: without the wait, it
// failed a package once in a few hundred runs.
func TestClosedPoolOfADeadServerHasTimeToEnd(t *testing.T) {
	logging.Disable()
	t.Cleanup(logging.Enable)
	var dials atomic.Int32
	code := patientMain{mainFunc(func() int {
		client := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:1", PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				dials.Add(1)
				return nil, errors.New("refused")
			},
		})
		for dials.Load() < 2 { // the second one is tryDial's
			_ = client.Ping(context.Background()).Err()
			time.Sleep(time.Millisecond)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		return 0
	})}.Run()
	if code != 0 {
		t.Errorf("code %d", code)
	}
	if err := goleak.Find(); err != nil {
		t.Error(err)
	}
}
