package demo

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
)

// syncBuffer is what the demo has printed so far.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *syncBuffer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *syncBuffer) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// The story is on the page until it is interrupted.
func TestServe(t *testing.T) {
	defer noLeaks(t)()
	logging.Disable()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var out syncBuffer
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, output.New(&out), l, "a token of the test", slog.New(slog.DiscardHandler))
	}()
	for _, text := range []string{`"election":"demo"`, `"election":"mailer"`, `"election":"reports"`, `"role":"leading"`, `"steer":true`, `"reason":"resigned"`} {
		if err := awaitOnPage(ctx, "http://"+l.Addr().String(), text); err != nil {
			t.Errorf("%s: %v\n%s", text, err, &out)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if strings.Contains(out.String(), "did not happen") {
		t.Errorf("%s", &out)
	}
}

// awaitOnPage reads the page's events until one holds the text.
func awaitOnPage(ctx context.Context, url, text string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/live", http.NoBody)
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
	return lines.Err()
}
