package quorum

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Requests that meet travel together, each gets its own answer, and a node that hangs delays all of
// them once. One that has been given up is not sent: it would be obeyed later.
func TestRequestsThatMeetTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		odd := errors.New("odd")
		var calls []int
		j := newCoalescer(func(_ context.Context, all []int) ([]int, []error) {
			calls = append(calls, len(all)) // one call at a time: no mutex
			time.Sleep(time.Second)
			answers, errs := make([]int, len(all)), make([]error, len(all))
			for i, q := range all {
				if answers[i] = 10 * q; q%2 == 1 {
					errs[i] = odd
				}
			}
			return answers, errs
		})
		var wg sync.WaitGroup
		ask := func(q int, patience time.Duration, want error) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if a, err := j.Do(ctx, q); !errors.Is(err, want) || err == nil && a != 10*q {
					t.Errorf("%d: %d, %v", q, a, err)
				}
			})
		}
		began := time.Now()
		ask(0, time.Minute, nil)
		synctest.Wait()
		for q := range maxBatch + 44 {
			want := error(nil)
			if q%2 == 1 {
				want = odd
			}
			ask(q, time.Minute, want)
		}
		ask(2, 10*time.Millisecond, context.DeadlineExceeded)
		wg.Wait()
		sum := 0
		for _, c := range calls {
			sum += c
		}
		if took := time.Since(began); took != 3*time.Second || len(calls) != 3 || slices.Max(calls) > maxBatch || sum != 1+maxBatch+44 {
			t.Errorf("%v: calls for %v requests", took, calls)
		}
	})
}
