package exporter

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// Regression: a reading that did not call the roll counted as a refusal, so the roll was never
// called again after one, and that of no other election either.
func TestRollIsCalledAgainAfterARefusal(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		for _, name := range []string{"refused", "other"} {
			r.Client("x").Set(t.Context(), "mandate:{"+name+"}:fence", "7", 0)
		}
		e := New(r.Quorum("exporter"))
		e.remember([]reading{{name: "refused", called: true, rollErr: elector.ErrDenied}, {name: "other", called: true}}, true, time.Now())
		refused := time.Now() // the right was given right afterwards
		for time.Since(refused) < 2*deniedFor {
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
			called := func(name string) bool {
				return strings.Contains(w.Body.String(), `mandate_election_candidates{election="`+name+`",prefix="mandate"}`)
			}
			if !called("other") {
				t.Fatalf("the roll of another election is not called %v after the refusal", time.Since(refused))
			}
			if called("refused") {
				if since := time.Since(refused); since < deniedFor {
					t.Errorf("called again %v after the refusal", since)
				}
				return
			}
			electortest.Advance(15 * time.Second)
		}
		t.Errorf("not called again within %v of the refusal", 2*deniedFor)
	})
}
