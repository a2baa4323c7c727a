package simtest

import (
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

// Write takes the electors' log lines.
func (h *history) Write(b []byte) (int, error) {
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
