package electorhttp_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/electorhttp"
	clocks "github.com/mandate-dev/mandate/elector/internal/lease"
)

// How long an answer holds counts on the clock that IsLeader reads: a step of the
// wall clock neither promises an hour, nor takes what is left.
func TestValidForIgnoresTheWallClock(t *testing.T) {
	for name, step := range map[string]time.Duration{"an hour back": -time.Hour, "an hour ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *stage) {
				w := &clocks.Warp{}
				e, h := s.startIn(clocks.WithClock(context.Background(), clocks.NewClock(w)), "a", electorhttp.Config{})
				until(t, "a leads", 2*lease, e.IsLeader)
				time.Sleep(time.Millisecond)
				_, before := leadership(t, h)
				w.Wall.Add(int64(step))
				if code, after := leadership(t, h); code != http.StatusOK || after.ValidFor != before.ValidFor || after.ValidFor <= 0 {
					t.Errorf("%d, %+v; before the step %+v", code, after, before)
				}
			})
		})
	}
}
