package demo

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console/consoletest"
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
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
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
	for _, shown := range []struct{ election, text string }{
		{"", `"election":"demo"`},
		{"", `"election":"mailer"`},
		{"", `"election":"reports"`},
		{"mailer", `"role":"leading"`},
		{"demo", `"version":"1.4.0"`},
		{"", `"actions":true`},
		{"", `"reason":"resigned"`},
	} {
		if err := consoletest.Await(ctx, "http://"+l.Addr().String(), shown.election, shown.text); err != nil {
			t.Errorf("%v: %v\n%s", shown, err, &out)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if strings.Contains(out.String(), "this time it did not happen") {
		t.Errorf("%s", &out)
	}
}
