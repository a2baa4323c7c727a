//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/rogpeppe/go-internal/testscript"
)

// viewer ADDR TEXT: looks at the console on ADDR until it tells the text.
func cmdViewer(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ts.Check(viewer(ctx, "http://"+args[0], args[1]))
}

func viewer(ctx context.Context, url, text string) error {
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
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// printed is what a command has printed so far.
type printed struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// The demo's story is on the page, until it is interrupted.
func TestDemoConsole(t *testing.T) {
	defer noLeaks(t)()
	logging.Disable()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out printed
	told := make(chan error, 1)
	go func() {
		told <- (&app{stdout: &out, log: slog.New(slog.DiscardHandler)}).playConsole(ctx, "127.0.0.1:0", slog.New(slog.DiscardHandler))
	}()
	url := ""
	for url == "" && ctx.Err() == nil {
		if found := regexp.MustCompile(`console: (\S+)\n`).FindStringSubmatch(out.String()); found != nil {
			url = found[1]
		}
		pauseFor(ctx, 10*time.Millisecond)
	}
	for _, text := range []string{`"election":"demo"`, `"election":"mailer"`, `"election":"reports"`, `"role":"leading"`, `"steer":true`, `"reason":"resigned"`} {
		if err := viewer(ctx, url, text); err != nil {
			t.Errorf("%s: %v\n%s", text, err, &out)
		}
	}
	cancel()
	if err := <-told; err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "token: ") || strings.Contains(out.String(), "did not happen") {
		t.Errorf("%s", &out)
	}
}
