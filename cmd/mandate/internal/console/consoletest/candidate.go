// Package consoletest has what the tests of the console's pages and of its server share.
package consoletest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// Lease is the lease of the candidates.
const Lease = 10 * time.Second

// Candidate campaigns until the test ends, with work that stops when its context ends.
func Candidate(t testing.TB, r *electortest.Redis, election, id string) *elector.Elector {
	t.Helper()
	return CandidateOn(t, r.Quorum(id), election, id)
}

// CandidateOn is Candidate with the test's own quorum, and with changes to the configuration.
func CandidateOn(t testing.TB, q *elector.Quorum, election, id string, change ...func(*elector.Config)) *elector.Elector {
	t.Helper()
	cfg := elector.Config{
		Election: election, ID: id, Advertise: id + ":80", Lease: Lease, Cooldown: time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&cfg)
	}
	e, err := elector.New(q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	untilEnd(t, func(ctx context.Context) error {
		return e.Run(ctx, func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			return nil
		})
	})
	return e
}

// untilEnd runs run until the test ends, and fails the test if run returns an error other than
// ErrNotReleased: a candidate that the test has cut off can't release its lock.
func untilEnd(t testing.TB, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, elector.ErrNotReleased) {
			t.Error(err)
		}
	})
}

// Await reads the live events of the page at url until one contains text: the events of the table,
// or of an election that is opened. It returns an error if the events end before.
func Await(ctx context.Context, url, election, text string) error {
	query := ""
	if election != "" {
		query = "?election=" + election
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/live"+query, http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
