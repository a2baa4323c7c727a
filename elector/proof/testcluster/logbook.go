package testcluster

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Logbook collects what a candidate logs.
type Logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write takes log lines.
func (l *Logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// Lines are those that hold all the words.
func (l *Logbook) Lines(with ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for line := range strings.Lines(l.buf.String()) {
		ok := true
		for _, w := range with {
			ok = ok && strings.Contains(line, w)
		}
		if ok {
			all = append(all, line)
		}
	}
	return all
}

// Logger writes to the logbook, also what only debugging needs.
func (l *Logbook) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
