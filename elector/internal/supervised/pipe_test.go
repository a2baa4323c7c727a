//go:build unix

package supervised

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

var must = servertest.Must

// pipe is one as a supervisor makes it, and its name as the environment has it.
func pipe(t *testing.T) (r, w *os.File, name string) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w, fmt.Sprintf("%d:%d", w.Fd(), inodeOf(t, w))
}

func inodeOf(t *testing.T, f *os.File) uint64 {
	t.Helper()
	var st syscall.Stat_t
	must(t, syscall.Fstat(int(f.Fd()), &st))
	return st.Ino
}

// What the variable names is used only when it is the very pipe that the supervisor meant: any other file
// of that number belongs to the program.
func TestTakeOnlyTheSupervisorsPipe(t *testing.T) {
	_, w, name := pipe(t)
	_, other, _ := pipe(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	must(t, err)
	defer file.Close()
	if p, err := take(name); p == nil || err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for what, value := range map[string]string{
		"empty": "", "no inode": fmt.Sprint(w.Fd()), "no number": ":1", "a word": "x:1", "an inode that is a word": fmt.Sprintf("%d:x", w.Fd()),
		"negative": fmt.Sprintf("-1:%d", inodeOf(t, w)), "a negative inode": fmt.Sprintf("%d:-1", w.Fd()), "too large": "99999999999999999999:1",
		"behind it more": name + ":1", "not open": fmt.Sprintf("1000000:%d", inodeOf(t, w)),
		"another pipe": fmt.Sprintf("%d:%d", other.Fd(), inodeOf(t, w)), "a file": fmt.Sprintf("%d:%d", file.Fd(), inodeOf(t, file)),
	} {
		if p, err := take(value); p != nil || err == nil || !strings.Contains(err.Error(), Variable) {
			t.Errorf("%s, %q: %v, %v; want an error that names %s", what, value, p, err, Variable)
		}
	}
}

// The lines say what the calls mean.
func TestReports(t *testing.T) {
	r, _, name := pipe(t)
	p, err := take(name)
	must(t, err)
	term, member := Term{Election: "e", Incarnation: "i", Attempt: 3, Token: 7, Nodes: 1, Lease: time.Second}, Member{Group: "g", Incarnation: "i"}
	p.Elected(term)
	p.Released(term)
	if !p.Promised("p", "e", 7, time.Second) {
		t.Error("the promise was not reported")
	}
	p.Joined(member)
	p.Left(member)
	dec := json.NewDecoder(r)
	for i, want := range []Message{{Elected: &term}, {Released: &term}, {Promised: &Promise{"p", "e", 7, time.Second}}, {Joined: &member}, {Left: &member}} {
		var got Message
		must(t, dec.Decode(&got))
		a, _ := json.Marshal(got)
		if b, _ := json.Marshal(want); string(a) != string(b) {
			t.Errorf("line %d is %s, want %s", i, a, b)
		}
	}
	long := term
	long.Advertise = strings.Repeat("x", MaxLine)
	p.Elected(long) // other writers' lines would stand in the middle of it
	p.Joined(member)
	var got Message
	if err := dec.Decode(&got); err != nil || got.Joined == nil {
		t.Errorf("after a line that is too long: %+v, %v", got, err)
	}
}

// A supervisor that does not read, or is dead, holds up no leader, and does not end it.
func TestPipeThatNobodyReads(t *testing.T) {
	full := make(chan struct{})
	r, _, name := pipe(t)
	p, err := take(name)
	must(t, err)
	go func() {
		defer close(full)
		for range 5000 { // some 100 bytes each: a pipe holds 64 KiB, or at most 1 MiB
			p.Elected(Term{Election: strings.Repeat("e", 300)})
		}
	}()
	select {
	case <-full:
	case <-time.After(30 * time.Second):
		t.Fatal("a full pipe blocks the leader")
	}
	if p.Promised("p", strings.Repeat("e", 400), 1, time.Second) {
		t.Error("a promise that the supervisor may never know of is made")
	}
	r.Close()
	if !p.Promised("p", "e", 1, time.Second) {
		t.Error("no promise is made although no supervisor is left")
	}
	p.Elected(Term{Election: "e"}) // EPIPE, and no SIGPIPE: that is for the standard streams alone
}

// Regression: a program that closes all files which it has inherited, and opens others, finds no reports
// of ours in those.
func TestReportsAreNotWrittenIntoAnotherFile(t *testing.T) {
	_, w, name := pipe(t)
	p, err := take(name)
	must(t, err)
	file := filepath.Join(t.TempDir(), "file")
	number := int(w.Fd())
	must(t, w.Close())
	p.Elected(Term{Election: "e"}) // nothing has the number
	fd, err := syscall.Open(file, syscall.O_CREAT|syscall.O_WRONLY, 0o600)
	if err != nil || fd != number {
		t.Fatalf("the file is %d, not %d: %v", fd, number, err)
	}
	defer func() { _ = syscall.Close(fd) }()
	p.Elected(Term{Election: "e"})
	if b, err := os.ReadFile(file); err != nil || len(b) != 0 {
		t.Errorf("in the program's file: %q, %v", b, err)
	}
}

// Without a supervisor a report costs a nil check.
func TestNoSupervisorCostsNothing(t *testing.T) {
	var none *Pipe
	if n := testing.AllocsPerRun(100, func() {
		none.Elected(Term{})
		none.Released(Term{})
		none.Promised("p", "e", 1, 0)
		none.Joined(Member{})
		none.Left(Member{})
	}); n != 0 {
		t.Errorf("%v allocations without a supervisor", n)
	}
}
