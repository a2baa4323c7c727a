package console

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
)

const (
	fuzzToken = "0123456789abcdef"
	// markup in whatever the console quotes
	fuzzElection = "<b>e"
)

// FuzzOrders sends what is a request to net/http. A page of another site must not
// get through, nor anybody without the token, whatever else they send.
func FuzzOrders(f *testing.F) {
	const head = " HTTP/1.1\r\nHost: localhost\r\n"
	post := func(path, headers, body string) string {
		return fmt.Sprintf("POST /api/%s%s%sContent-Length: %d\r\n\r\n%s", path, head, headers, len(body), body)
	}
	const good = "Content-Type: application/json\r\nAuthorization: Bearer " + fuzzToken + "\r\n"
	for _, s := range []string{
		post("resign", good, `{"election":"<b>e"}`), post("transfer", good, `{"election":"<b>e","to":"<i>"}`), post("transfer", good, `{"election":"<b>e"}`),
		post("pause", good, `{"election":"<b>e","for_ms":1000,"reason":"<script>"}`), post("pause", good, `{"election":"<b>e","for_ms":-1}`),
		post("pause", good, `{"election":"<b>e","for_ms":9223372036854775807}`), post("resume", good, `{"election":"<b>e"}`),
		post("resume", good, `{"election":"<b>e"}{"election":"<b>e"}`), post("resume", good, `{"election":"<b>e"} x`), post("resume", good, `{"election":"<u>"}`),
		post("resume", good, `{"election":"<b>e","election":"x"}`), post("resume", good, "\xff"), post("pause", good, "{\"election\":\"<b>e\",\"reason\":\"\\u0000\xff\"}"),
		post("resume", good, `{"election":"<b>e"}`+strings.Repeat(" ", 5<<10)), post("resume", good, `null`), post("nosuch", good, `{}`),
		post("resume", good+"Sec-Fetch-Site: cross-site\r\n", `{"election":"<b>e"}`), post("resume", good+"Sec-Fetch-Site: none\r\n", `{"election":"<b>e"}`),
		post("resume", "Content-Type: application/json\r\n", `{"election":"<b>e"}`), post("resume", "Content-Type: text/plain\r\nAuthorization: bearer "+fuzzToken+"\r\n", `{"election":"<b>e"}`),
		post("resume", "Content-Type: application/json; charset=utf-8\r\nAuthorization: Basic "+fuzzToken+"\r\n", `{"election":"<b>e"}`),
		"POST /api/resume HTTP/1.1\r\nHost: evil.example\r\n" + good + "Content-Length: 19\r\n\r\n{\"election\":\"<b>e\"}",
		"POST /api/resume HTTP/1.1\r\nHost: [::1]:7481\r\n" + good + "Transfer-Encoding: chunked\r\n\r\n13\r\n{\"election\":\"<b>e\"}\r\n0\r\n\r\n",
		"POST //api/resume" + head + good + "\r\n", "POST /api/./resume?<b>" + head + good + "\r\n", "GET /api/resume" + head + good + "\r\n",
		"GET /" + head + "\r\n", "GET /?<b>" + head + "\r\n", "HEAD /console.js" + head + "Range: bytes=0-1,2-3\r\n\r\n", "GET /console.css" + head + "If-None-Match: *\r\n\r\n",
		"GET /<b>" + head + "\r\n", "GET //evil.example/..?<b>" + head + "\r\n", "GET /%2f%2fevil.example/%2e%2e" + head + "\r\n", "GET /console.html/" + head + "\r\n",
		"GET /api/live?at=-1" + head + "Last-Event-ID: -1\r\n\r\n", "HEAD /api/live" + head + "\r\n", "GET /api/live" + head + "Sec-Fetch-Site: same-site\r\n\r\n",
		"OPTIONS *" + head + "\r\n", "CONNECT localhost:1" + head + "\r\n", "PRI * HTTP/2.0\r\n\r\n", "GET http://localhost/api/live HTTP/1.0\r\n\r\n",
	} {
		f.Add(s)
	}
	carried := carriedOut(f)
	redis := electortest.Start(f)
	c, err := New(Config{Quorum: redis.Quorum("console"), Token: fuzzToken, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	c.operators.cache.set(kindRow, fuzzElection, row{Election: fuzzElection})
	f.Fuzz(func(t *testing.T, raw string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil {
			return
		}
		whole, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		sent := &counted{Reader: bytes.NewReader(whole)}
		r.Body = sent
		*carried = nil
		w := answered(t, c, r)
		sensible(t, w, r)
		if sent.n > 2*maxBody {
			t.Errorf("%d bytes of the body were read", sent.n)
		}
		for _, o := range *carried {
			permitted(t, r, whole, o)
		}
		if len(*carried) > 1 || w.Code == http.StatusOK && r.Method == http.MethodPost && len(*carried) == 0 {
			t.Errorf("%d with %d orders carried out", w.Code, len(*carried))
		}
	})
}

// carriedOut has the actions note what they were told to do. What they do first is
// checked, too: then they meet an election without a leader, or fail in a way
// that depends on the order.
func carriedOut(f *testing.F) *[]actionRequest {
	before := actions
	f.Cleanup(func() { actions = before })
	var carried []actionRequest
	actions = map[string]operatorAction{}
	for name, do := range before {
		actions[name] = func(_ context.Context, el *elector.Election, o actionRequest) (string, error) {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			if _, err := do(ended, el, o); err != nil && !errors.Is(err, elector.ErrUnreachable) && !errors.Is(err, elector.ErrNoLeader) {
				return "", err // nothing was asked of Redis
			}
			carried = append(carried, o)
			return []string{"<b>" + o.Reason, o.To}[len(o.Reason)%2], []error{
				nil, elector.ErrRefused, elector.ErrNoLeader, fmt.Errorf("%w: <b>%s", elector.ErrUnreachable, o.To), errors.New("<b>"),
			}[len(o.To)%5]
		}
	}
	return &carried
}

// answered waits for the answer. A stream ends when its viewer leaves; all else
// must end by itself.
func answered(t *testing.T, c *Console, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := httptest.NewRecorder()
	done := make(chan struct{})
	if r.Method == http.MethodGet {
		cancel()
	}
	go func() {
		defer close(done)
		c.ServeHTTP(w, r.WithContext(ctx))
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("it does not end")
		cancel()
		<-done
	}
	return w
}

// sensible checks what any client may get.
func sensible(t *testing.T, w *httptest.ResponseRecorder, r *http.Request) {
	t.Helper()
	head, body := w.Result().Header, w.Body.String()
	switch w.Code {
	case 200, 206, 301, 304, 307, 308, 400, 401, 403, 404, 405, 409, 412, 415, 416, 421, 429, 502:
	default:
		t.Errorf("status %d", w.Code)
	}
	if head.Get("Content-Security-Policy") != policy || head.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("not protected: %v", head)
	}
	if len(body) > 256<<10 {
		t.Errorf("%d bytes to one request", len(body))
	}
	if at := head.Get("Location"); at != "" {
		if u, err := url.Parse(at); err != nil || u.Host != "" || u.Scheme != "" || strings.HasPrefix(at, "//") || strings.HasPrefix(at, `/\`) {
			t.Errorf("%s leads to %q", r.URL, at)
		}
	}
	kind, _, _ := strings.Cut(head.Get("Content-Type"), ";")
	switch {
	case kind == "application/json":
		var v struct{ Error, Said *string }
		if err := json.Unmarshal([]byte(body), &v); err != nil || strings.Contains(body, "<") || (v.Error == nil) != (w.Code == http.StatusOK) {
			t.Errorf("%d: %q", w.Code, body)
		}
	case kind == "text/event-stream":
		if w.Code != http.StatusOK || strings.Contains(body, "<") {
			t.Errorf("%d: %q", w.Code, body)
		}
	case w.Code/100 == 3: // a link to the clean path, by net/http
		if text := strings.TrimPrefix(strings.TrimSpace(body), "<a href="); strings.Contains(strings.TrimSuffix(text, "</a>."), "<") {
			t.Errorf("%d: %q", w.Code, body)
		}
	case w.Code/100 != 2:
		if kind != "" && kind != "text/plain" && strings.Contains(body, "<") {
			t.Errorf("%d: %q as %s", w.Code, body, kind)
		}
	}
}

// permitted says again, in other words, who may give an order.
func permitted(t *testing.T, r *http.Request, body []byte, o actionRequest) {
	t.Helper()
	auth := r.Header.Get("Authorization")
	if len(auth) != len("Bearer ")+len(fuzzToken) || !strings.HasSuffix(auth, " "+fuzzToken) {
		t.Errorf("done for %q", auth)
	}
	if r.Method != http.MethodPost || !strings.Contains(strings.ToLower(r.Header.Get("Content-Type")), "application/json") {
		t.Errorf("done by %s of %q: a form of another site can send that", r.Method, r.Header.Get("Content-Type"))
	}
	if site := r.Header.Get("Sec-Fetch-Site"); strings.Contains(site, "site") || strings.Contains(site, "cross") {
		t.Errorf("done for a page that is %q", site)
	}
	if strings.ContainsAny(strings.TrimPrefix(strings.ToLower(r.Host), "localhost"), "ghijklmnopqrstuvwyz") {
		t.Errorf("done under the name %q", r.Host)
	}
	if o.Election != fuzzElection || o.ForMS < 0 || o.ForMS > 366*24*time.Hour.Milliseconds() {
		t.Errorf("done: %+v", o)
	}
	if len(body) > maxBody || !json.Valid(body) {
		t.Errorf("done what %q says", body)
	}
}

// counted tells how much was read.
type counted struct {
	io.Reader

	n int
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += n
	return n, err
}

func (c *counted) Close() error { return nil }
