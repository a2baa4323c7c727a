package simtest

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// history keeps the last lines of what happened.
type history struct {
	mu    sync.Mutex
	start time.Time
	lines []string
	lists []string // log lines that accuse another candidate of another list of nodes
}

const historyLines = 400

func (h *history) addf(format string, args ...any) {
	line := fmt.Sprintf("%10.4fs ", time.Since(h.start).Seconds()) + fmt.Sprintf(format, args...)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lines) >= 2*historyLines {
		h.lines = append([]string(nil), h.lines[historyLines:]...)
	}
	h.lines = append(h.lines, line)
}

func (h *history) last() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.lines[max(0, len(h.lines)-historyLines):]...)
}

// accused returns those lines. All candidates here have one list.
func (h *history) accused() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lists
}

// Write takes the electors' log lines.
func (h *history) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("other Redis nodes")) || bytes.Contains(b, []byte("another leader, ")) {
		h.mu.Lock()
		h.lists = append(h.lists, strings.TrimSpace(string(b)))
		h.mu.Unlock()
	}
	h.addf("    log %s", strings.TrimSpace(string(b)))
	return len(b), nil
}

func (h *history) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(h, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == "election" {
				return slog.Attr{}
			}
			return a
		},
	}))
}
