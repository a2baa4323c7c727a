//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// site start | unhealthy | healthy: a program that answers the token of its request, in $SITE.
func cmdSite(ts *testscript.TestScript, _ bool, args []string) {
	v := valuesOf(ts)
	switch args[0] {
	case "start":
		unhealthy := &atomic.Bool{}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if unhealthy.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte(r.Method + " of term " + r.Header.Get("Mandate-Token")))
		}))
		ts.Defer(s.Close)
		v.unhealthy = unhealthy
		ts.Setenv("SITE", s.URL)
	default:
		v.unhealthy.Store(args[0] == "unhealthy")
	}
}

// request METHOD ADDR PATH CODE TEXT [TOKEN]: repeats the request until the answer has this
// code and holds the text.
func cmdRequest(ts *testscript.TestScript, _ bool, args []string) {
	code, err := strconv.Atoi(args[3])
	ts.Check(err)
	ts.Check(poll(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, args[0], (&url.URL{Scheme: "http", Host: args[1]}).String()+args[2], http.NoBody)
		if err != nil {
			return err
		}
		if len(args) > 5 {
			req.Header.Set("Authorization", "Bearer "+args[5])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		var b bytes.Buffer
		_, err = b.ReadFrom(res.Body)
		if err == nil && (res.StatusCode != code || !strings.Contains(b.String(), args[4])) {
			err = fmt.Errorf("%s %s: %d %s", args[0], args[2], res.StatusCode, b.String())
		}
		return err
	}))
}

// port NAME: a free one.
func cmdPort(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strconv.Itoa(servertest.FreePort(valuesOf(ts).t)))
}

// What a container's health check calls: it waits for an answer of 2xx, and needs no Redis.
func TestWaitForURL(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	var logs servertest.Logbook
	if code := execute(t.Context(), []string{"wait", "--url", s.URL + "/live"}, io.Discard, &logs); code != 0 || asked.Load() != 3 {
		t.Errorf("exit code %d after %d requests: %s", code, asked.Load(), logs.String())
	}
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 4 { // the last one is cut off, which explains nothing
			<-r.Context().Done()
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	if code := execute(t.Context(), []string{"wait", "--url", s.URL + "/live", "--timeout", "500ms"}, io.Discard, &logs); code != 1 || !strings.Contains(logs.String(), "503") {
		t.Errorf("exit code %d: %s", code, logs.String())
	}
}
