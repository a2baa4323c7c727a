//go:build linux

package chaos

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Kind is what a Record reports.
type Kind string

// The kinds of records.
const (
	Begin  Kind = "begin"  // a term began
	Valid  Kind = "valid"  // a term was checked between At and Until, and held
	End    Kind = "end"    // a term ended
	Beside Kind = "beside" // another process of a term began to work
	Start  Kind = "start"  // a process of a candidate began
	Call   Kind = "call"   // a write to the register is about to be sent
	Reply  Kind = "reply"  // its outcome: Result
	Read   Kind = "read"   // the register was read between At and Until
	Fault  Kind = "fault"  // Target is broken from here on
	Heal   Kind = "heal"   // Target is whole from here on
	Act    Kind = "act"    // what was done to Target, for the report: Result
	Kept   Kind = "kept"   // nothing is left that may release the term, and at At its lock lasted until Until: Result is why
	Late   Kind = "late"   // the machine let a process wait from At, when it should have run, to Until
)

// Results of a write.
const (
	Applied = "applied"
	Refused = "refused"
	Lost    = "lost" // not known
)

// Record is one line of the journal. All times are of one clock, that of the
// machine, which all processes share.
type Record struct {
	Kind     Kind          `json:"k"`
	At       time.Duration `json:"t"`
	Until    time.Duration `json:"u,omitempty"`
	Who      string        `json:"w,omitempty"` // the candidate
	PID      int           `json:"p,omitempty"`
	Token    uint64        `json:"n,omitempty"`
	Op       int           `json:"o,omitempty"` // of a write, unique in its process
	Register string        `json:"g,omitempty"`
	Value    string        `json:"v,omitempty"`
	Result   string        `json:"r,omitempty"`
	Target   string        `json:"x,omitempty"`
	Command  bool          `json:"c,omitempty"` // the term is served by mandate run, not embedded
}

// Now is the machine's clock. It runs on while a process is stopped.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // not on any Linux that Go supports
	}
	return time.Duration(ts.Nano())
}

// Journal is an append-only file that many processes write to at once. A record
// is one write, so that no record is torn by another, or by a SIGKILL.
type Journal struct{ f *os.File }

// OpenJournal opens the file, or makes it.
func OpenJournal(file string) (*Journal, error) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &Journal{f: f}, nil
}

// Write appends a record, at the time of now unless it has one. A journal that
// can't be written proves nothing: the process ends.
func (j *Journal) Write(r Record) {
	if r.At == 0 {
		r.At = Now()
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = j.f.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("chaos: the journal can't be written: %v", err))
	}
}

// Close closes the file.
func (j *Journal) Close() error { return j.f.Close() }

// ReadJournal returns all records in the order of their times.
func ReadJournal(r io.Reader) ([]Record, error) {
	var all []Record
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var rec Record
		if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(all)+1, err)
		}
		all = append(all, rec)
	}
	slices.SortStableFunc(all, func(a, b Record) int { return cmp.Compare(a.At, b.At) })
	return all, lines.Err()
}
