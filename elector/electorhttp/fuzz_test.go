package electorhttp_test

import (
	"bufio"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// FuzzRequest sends what is a request to net/http. No candidate leads here, so only a
// probe of liveness may say yes, and nobody has the token.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"GET /leader HTTP/1.1\r\nHost: h\r\n\r\n", "HEAD /leader HTTP/1.0\r\n\r\n", "GET /history?n=-1 HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /history?n=99999999999999999999&n=%zz HTTP/1.1\r\nHost: h\r\n\r\n", "GET /events HTTP/1.1\r\nHost: h\r\nLast-Event-ID: -1\r\n\r\n",
		"GET /events HTTP/1.1\r\nHost: h\r\nLast-Event-ID: 18446744073709551615-x\r\n\r\n",
		"POST /resign HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \r\nContent-Length: 2\r\n\r\n{}",
		"POST /transfer?to=%7b%7d HTTP/1.1\r\nHost: h\r\nAuthorization: bearer 0123456789abcdeX\r\n\r\n",
		"GET //..//leader HTTP/1.1\r\nHost: h\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n", "GET /ready HTTP/1.1\r\nHost: h\r\n\r\n", "GET /live HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		f.Add(s)
	}
	q, err := elector.Open("redis://127.0.0.1:1")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { q.Close() })
	e, err := elector.New(q, elector.Config{Election: "e", ID: "a", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	const token = "0123456789abcdef"
	h, err := electorhttp.New(e, electorhttp.Config{Token: token})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil || strings.Contains(raw, token) {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(ctx))
		if ok := w.Code/100 == 2; ok && (r.Method == http.MethodPost || r.URL.Path == "/leader" || r.URL.Path == "/ready") {
			t.Fatalf("%d to %q: %s", w.Code, raw, w.Body)
		}
		if w.Code < 200 || w.Code > 599 {
			t.Fatalf("%d to %q", w.Code, raw)
		}
	})
}
