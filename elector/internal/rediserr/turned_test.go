package rediserr

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

const denied = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set. In this mode connections are only accepted from the loopback interface.\r\n"

// Only a server that says why it ends the connection has answered.
func TestResetIsNoAnswer(t *testing.T) {
	if Answered(&NodeError{Node: "n", Err: errors.New("connection reset by peer")}) {
		t.Error("it counts as an answer")
	}
}

// A Redis in protected mode answers before it is asked, and is gone when the request comes. It is there: to bring it back
// helps nothing.
func TestConnectionsThatTheServerEndsAreExplained(t *testing.T) {
	for name, after := range map[string]time.Duration{"at once": 0, "a little later": 20 * time.Millisecond} {
		for line, want := range map[string]string{
			denied:                                   "DENIED Redis is running in protected mode",
			"-ERR max number of clients reached\r\n": "ERR max number of clients reached",
		} {
			t.Run(name+"/"+want[:3], func(t *testing.T) {
				addr := servertest.Listen(t, func(c net.Conn) {
					time.Sleep(after)
					_, _ = c.Write([]byte(line))
				})
				c := redis.NewClient(&redis.Options{MaxRetries: -1, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
					return Explained(c, new(atomic.Bool)), err
				}})
				defer c.Close()
				err := error(&NodeError{Node: "n", Err: c.Ping(t.Context()).Err()})
				if turned := TurnedAway(""); !errors.As(err, &turned) || !strings.Contains(err.Error(), want) || !Answered(err) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}
