//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// logReader is a log's reader that may hang, or be gone.
type logReader struct {
	bytes.Buffer
	hangs chan struct{} // until it is closed
	err   error
}

func (r *logReader) Write(p []byte) (int, error) {
	<-r.hangs
	if r.err != nil {
		return 0, r.err
	}
	return r.Buffer.Write(p)
}

// A reader that hangs or is gone holds up nothing; what was dropped is counted, and reported when there is
// room again, before what comes then. The end waits for the reader, but not for ever.
func TestHungReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &logReader{hangs: make(chan struct{}), err: errors.New("broken pipe")}
		q := newLogQueue(r, func(lost int64) error {
			_, err := fmt.Fprintf(r, "lost %d\n", lost)
			return err
		})
		fmt.Fprintln(q, "line")
		synctest.Wait() // it is being written
		began := time.Now()
		for range maxQueued + 7 {
			fmt.Fprintln(q, "line")
		}
		if time.Since(began) != 0 {
			t.Fatal("it blocked")
		}
		close(r.hangs)
		synctest.Wait() // everything is lost
		r.err = nil
		fmt.Fprintln(q, "the reader is back")
		synctest.Wait()
		r.hangs = make(chan struct{})
		fmt.Fprintln(q, "line")
		if q.close(time.Second); time.Since(began) != time.Second {
			t.Errorf("the end took %v, want a second", time.Since(began))
		}
		if got, want := r.String(), fmt.Sprintf("lost %d\nthe reader is back\n", 1+maxQueued+7); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		close(r.hangs)
	})
}
