//go:build linux

package chaos

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A process that is killed writes no last line. So each one keeps the time at which it last worked under a
// token in a file of its own, in one write: it holds whenever the process is killed.

// Span is the time in which one process worked under one token.
type Span struct{ f *os.File }

// OpenSpan begins one, in the directory of its election. part tells the processes of a term apart.
func OpenSpan(dir string, token uint64, part string) (*Span, error) {
	f, err := os.Create(spanFile(dir, token, os.Getpid(), part))
	return &Span{f}, err
}

func spanFile(dir string, token uint64, pid int, part string) string {
	return filepath.Join(dir, fmt.Sprintf("span-%d-%d-%s", token, pid, part))
}

// Worked notes that the process works now.
func (s *Span) Worked() error {
	_, err := s.f.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(Now())), 0)
	return err
}

// lastWorked is when a process of a term last did; 0: it has not.
func lastWorked(dir string, token uint64, pid int, part string) (time.Duration, error) {
	b, err := os.ReadFile(spanFile(dir, token, pid, part))
	if err != nil || len(b) == 0 {
		return 0, err
	}
	return time.Duration(binary.LittleEndian.Uint64(b)), nil
}

// withSpans adds to the records of begun work until when it was done: Check then finds what overlaps.
func withSpans(dir string, begun []Record) ([]Record, error) {
	all := begun
	for _, rec := range begun {
		if rec.Kind != Begin && rec.Kind != Beside {
			continue
		}
		last, err := lastWorked(dir, rec.Token, rec.PID, rec.Value)
		if err != nil {
			return nil, err
		}
		valid := Record{Kind: Valid, Who: rec.Who, PID: rec.PID, Token: rec.Token, Command: rec.Command}
		valid.At, valid.Until = rec.At, rec.At
		all = append(all, valid)
		if last > rec.At {
			valid.At, valid.Until = last, last
			all = append(all, valid)
		}
	}
	return all, nil
}
