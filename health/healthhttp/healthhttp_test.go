package healthhttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/mandate-dev/mandate/health"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var pass = health.Func(func(context.Context) error { return nil })

func request(h http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func full(t *testing.T, h http.Handler, path string) map[string]string {
	t.Helper()
	answers := map[string]string{}
	must(t, json.Unmarshal(request(h, "GET", path+"?full=1").Body.Bytes(), &answers))
	return answers
}

func TestProbesFailBeforeRunAndAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		must(t, h.AddLiveProbe("disk", pass, health.Settings{}))
		must(t, h.AddReadyProbe("db", pass, health.Settings{}))
		if got := request(h, "GET", "/live").Code; got != 503 {
			t.Errorf("before Run: %d, want 503", got)
		}
		if got := full(t, h, "/ready")["db"]; !strings.Contains(got, "not started") {
			t.Errorf("before Run: %q", got)
		}

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.Run(ctx) }()
		synctest.Wait()
		for _, path := range []string{"/live", "/ready"} {
			if got := request(h, "GET", path).Code; got != 200 {
				t.Errorf("%s while running: %d, want 200", path, got)
			}
		}
		if got := full(t, h, "/ready"); got["db"] != "OK" || got["disk"] != "OK" {
			t.Errorf("/ready must show readiness and liveness, got %v", got)
		}
		if got := full(t, h, "/live"); len(got) != 1 {
			t.Errorf("/live must show liveness only, got %v", got)
		}
		if err := h.Run(ctx); err == nil || !strings.Contains(err.Error(), "running") {
			t.Errorf("second Run: %v", err)
		}
		if err := h.AddReadyProbe("late", pass, health.Settings{}); err == nil {
			t.Error("a probe added while running would never be asked")
		}
		cancel()
		must(t, <-done)
		if got := request(h, "GET", "/live").Code; got != 503 {
			t.Errorf("after Run: %d, want 503", got)
		}

		ctx, cancel = context.WithCancel(t.Context())
		go func() { done <- h.Run(ctx) }()
		synctest.Wait()
		if got := request(h, "GET", "/ready").Code; got != 200 {
			t.Errorf("second Run: %d, want 200", got)
		}
		cancel()
		must(t, <-done)
	})
}

func TestChecksRequestedDirectly(t *testing.T) {
	h := New()
	var bad error
	must(t, h.AddReadyCheck("election", func() error { return bad }))
	must(t, h.AddLiveCheck("goroutines", func() error { return nil }))
	if got := request(h, "GET", "/ready").Code; got != 200 {
		t.Errorf("%d", got)
	}
	bad = errors.New("2 of 3 redis nodes down")
	if got := request(h, "GET", "/ready").Code; got != 503 {
		t.Errorf("%d", got)
	}
	if got := request(h, "GET", "/live").Code; got != 200 {
		t.Errorf("a readiness check made /live fail: %d", got)
	}
	must(t, h.AddReadyCheck("broken", func() error { panic("oops") }))
	if got := full(t, h, "/ready"); got["broken"] != "panic: oops" || got["election"] != bad.Error() {
		t.Errorf("%v", got)
	}
}

func TestBadChecksAreRefusedWithoutPanic(t *testing.T) {
	h := New()
	ok := func() error { return nil }
	must(t, h.AddLiveCheck("db", ok))
	for name, err := range map[string]error{
		"duplicate":              h.AddLiveCheck("db", ok),
		"duplicate across kinds": h.AddReadyProbe("db", pass, health.Settings{}),
		"empty name":             h.AddReadyCheck("", ok),
		"empty name of a probe":  h.AddLiveProbe("", pass, health.Settings{}),
		"nil check":              h.AddReadyCheck("nil", nil),
		"nil probe":              h.AddReadyProbe("nil", nil, health.Settings{}),
		"bad settings":           h.AddReadyProbe("x", pass, health.Settings{Interval: -1}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	must(t, h.AddReadyProbe("x", pass, health.Settings{})) // what was refused took no name
}
