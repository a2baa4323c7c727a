package logqueue

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// reader is a log's reader that may hang, or be gone.
type reader struct {
	bytes.Buffer
	hangs chan struct{} // until it is closed; nil: it doesn't
	err   error
}

func (r *reader) Write(p []byte) (int, error) {
	if r.hangs != nil {
		<-r.hangs
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.Buffer.Write(p)
}

func logger(q *Queue) *slog.Logger {
	return slog.New(NewHandler(q, slog.NewTextHandler(q, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
}

func TestEverythingInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		q := New(r)
		log := logger(q).With("a", 1).WithGroup("g")
		want := ""
		for i := range most / 2 {
			log.Info("line", "i", i)
			want += fmt.Sprintf("level=INFO msg=line a=1 g.i=%d\n", i)
		}
		q.Close(time.Hour)
		if r.String() != want {
			t.Errorf("got %d bytes, want %d", r.Len(), len(want))
		}
		log.Info("after the end") // harms nobody
	})
}

// A reader that hangs holds up nothing; what had no room is counted, and told when
// there is room again, before what comes then.
func TestHungReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{hangs: make(chan struct{})}
		q := New(r)
		log := logger(q)
		log.Info("first")
		synctest.Wait() // it is being written
		began := time.Now()
		for range most + 7 {
			log.Info("line")
		}
		if time.Since(began) != 0 {
			t.Fatal("it blocked")
		}
		close(r.hangs)
		synctest.Wait()
		log.Warn("last")
		q.Close(time.Hour)
		lines := strings.Split(strings.TrimSpace(r.String()), "\n")
		if len(lines) != 1+most+2 || !strings.Contains(lines[most+1], "dropped") || !strings.Contains(lines[most+1], "count=7") || !strings.Contains(lines[most+2], "last") {
			t.Errorf("%d lines, the last ones: %q", len(lines), lines[max(0, len(lines)-2):])
		}
	})
}

// The end of the program waits for the reader, but not for ever.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{hangs: make(chan struct{})}
		q := New(r)
		logger(q).Info("line")
		began := time.Now()
		q.Close(time.Second)
		if d := time.Since(began); d != time.Second {
			t.Errorf("it took %v, want a second", d)
		}
		close(r.hangs)
	})
}

// A reader that is gone is no end of the log: it may come back.
func TestReaderComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{err: errors.New("broken pipe")}
		q := New(r)
		log := logger(q)
		log.Info("lost")
		log.Info("lost")
		synctest.Wait()
		r.err = nil
		log.Info("back")
		q.Close(time.Hour)
		if got := r.String(); !strings.Contains(got, "count=2") || !strings.Contains(got, "back") || strings.Contains(got, "lost") {
			t.Errorf("got %q", got)
		}
	})
}
