package access

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A dead machine among those of a name costs a moment, and not the time of a claim; one that refuses costs nothing. Of two
// that answer one connection is kept.
func TestDeadAddressesOfAName(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		after []time.Duration // each address connects: below zero it refuses, from a minute on nothing comes
		takes time.Duration
		used  int // -1: none
	}{
		"one":            {[]time.Duration{30 * time.Millisecond}, 30 * time.Millisecond, 0},
		"dead, up":       {[]time.Duration{time.Minute, 1}, apart + 1, 1},
		"dead, dead, up": {[]time.Duration{time.Minute, time.Minute, 1}, 2*apart + 1, 2},
		"refused, up":    {[]time.Duration{-1, 1}, 1, 1},
		"dead, refused":  {[]time.Duration{time.Minute, -1}, 2 * time.Second, -1},
		"slow, fast":     {[]time.Duration{apart + 3, 1}, apart + 1, 1},
		"slow, slow":     {[]time.Duration{apart + 3, 5}, apart + 3, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			began, clients, servers := time.Now(), [3]net.Conn{}, [3]net.Conn{}
			for i := range clients {
				clients[i], servers[i] = net.Pipe()
			}
			_, err := first(ctx, []int{0, 1, 2}[:len(c.after)], func(ctx context.Context, i int) (net.Conn, error) {
				switch after := c.after[i]; {
				case after < 0:
					return nil, refused
				case after == time.Minute:
					<-ctx.Done()
					return nil, ctx.Err()
				default:
					time.Sleep(after)
					return clients[i], nil
				}
			})
			if took := time.Since(began); took != c.takes || (err == nil) != (c.used >= 0) || c.used < 0 && !errors.Is(err, refused) {
				t.Errorf("%s: %v after %v, want %v", name, err, took, c.takes)
			}
			time.Sleep(time.Second) // those that came too late
			for i, after := range c.after {
				_ = servers[i].SetReadDeadline(time.Now().Add(1))
				_, err := servers[i].Read(make([]byte, 1))
				if closed := errors.Is(err, io.EOF); closed != (i != c.used && after >= 0 && after < time.Minute && time.Duration(i)*apart < c.takes) {
					t.Errorf("%s: the connection to address %d: %v", name, i, err)
				}
			}
		})
	}
}
