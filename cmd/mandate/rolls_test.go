package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// A list of elections waits once for all candidates that never answer, such as somebody who
// subscribes to channels that look like ours; and when time is up, it reports what is missing.
func TestListWaitsOnceForThoseThatDoNotAnswer(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		const foreign = 100
		var channels []string
		for i := range foreign {
			channels = append(channels, fmt.Sprintf("mandate:{foreign-%d}:roll", i))
		}
		sub := r.Client("x").Subscribe(t.Context(), channels...)
		t.Cleanup(func() { _ = sub.Close() })
		for range channels {
			if _, err := sub.Receive(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		q := r.Quorum("operator")
		names, err := q.Elections(t.Context())
		if err != nil || len(names) != foreign {
			t.Fatalf("%d names, %v", len(names), err)
		}
		began := time.Now()
		all, err := reports(t.Context(), q, names)
		if took := time.Since(began); err != nil || took > 2*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		if text := strings.Join((&output.Printer{}).Table(electionTable(all, false)), "\n"); strings.Contains(text, "?") {
			t.Errorf("something is not known:\n%.300s", text)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := reports(ctx, q, names[:1]); err == nil || !strings.HasSuffix(err.Error(), "they did not all answer within 10s") {
			t.Errorf("cut off: %v", err)
		}
	})
}
