package servertest

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Logbook collects what a program prints or logs. Safe for concurrent use.
type Logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *Logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// String returns all that was written.
func (l *Logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Lines returns the lines that hold all the words.
func (l *Logbook) Lines(with ...string) (all []string) {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(with, func(word string) bool { return !strings.Contains(line, word) }) {
			all = append(all, line)
		}
	}
	return all
}

// Logger returns a logger that writes to the logbook, also what only debugging needs.
func (l *Logbook) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
