//go:build unix

package supervise

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// machine is a clock that a suspend of the machine puts ahead of the timers.
type machine struct{ suspended atomic.Int64 }

func (m *machine) now() Instant { return Now() + Instant(m.suspended.Load()) }

// reporter is called with each of the helper's reports.
type reporter func(line string)

func (f reporter) Write(b []byte) (int, error) {
	f(string(b))
	return len(b), nil
}

// The helper's deadline is the newest one that mandate has written, however late it is read, and the
// end of the pipe, without a word, is mandate's death.
func TestFollow(t *testing.T) {
	until := func(w io.Writer, d time.Duration) { fmt.Fprintf(w, untilLine, Now().Add(d)) }
	for name, c := range map[string]struct {
		first time.Duration                                          // the first deadline
		do    func(m *machine, w io.WriteCloser, late <-chan string) // after it the pipe is closed
		want  string
	}{
		"the end of mandate": {time.Hour, func(*machine, io.WriteCloser, <-chan string) {}, "dead"},
		"mandate is done":    {time.Hour, func(_ *machine, w io.WriteCloser, _ <-chan string) { io.WriteString(w, doneLine) }, "done"},
		"silence":            {50 * time.Millisecond, func(_ *machine, _ io.WriteCloser, late <-chan string) { <-late }, "late, dead"},
		"sooner": {time.Hour, func(_ *machine, w io.WriteCloser, late <-chan string) {
			until(w, 50*time.Millisecond)
			<-late
		}, "late, dead"},
		"extended": {10 * time.Second, func(_ *machine, w io.WriteCloser, _ <-chan string) {
			until(w, time.Hour)
			io.WriteString(w, doneLine)
		}, "done"},
		"a report, and garbage": {time.Hour, func(_ *machine, w io.WriteCloser, _ <-chan string) {
			io.WriteString(w, "garbage\n{\"elected\":{\"election\":\"e\",\"attempt\":1}}\n")
		}, "dead, terms"},
		"a suspended machine": {time.Hour, func(m *machine, _ io.WriteCloser, late <-chan string) {
			m.suspended.Store(int64(2 * time.Hour))
			select {
			case <-late:
			case <-time.After(20 * time.Second): // a helper that sleeps on would sleep for the hour
			}
		}, "late, dead"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			m, late := &machine{}, make(chan string, 1)
			go func() { c.do(m, w, late); w.Close() }()
			if got := followed(r, late, Now().Add(c.first), m.now); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// followed is how follow ends for a helper with this deadline.
func followed(r *os.File, late chan<- string, until Instant, now func() Instant) (how string) {
	h := &helper{orders: bufio.NewReader(r), gone: make(chan struct{})}
	close(h.gone) // it kills nothing
	h.Until = until
	h.reports = reporter(func(line string) { how += strings.TrimSpace(line) + ", "; late <- line })
	if h.follow(int(r.Fd()), now) {
		return how + "done"
	}
	if how += "dead"; !h.terms.Empty() {
		how += ", terms"
	}
	return how
}

// A helper that was stopped beyond its deadline reads what mandate has written meanwhile, before it kills.
func TestFollowAfterAStop(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for d := -20; d < 0; d++ {
		fmt.Fprintf(w, untilLine, Now().Add(time.Duration(d)*time.Second))
	}
	fmt.Fprintf(w, untilLine, Now().Add(time.Hour))
	w.Close()
	if got := followed(r, make(chan string, 1), Now().Add(-time.Minute), Now); got != "dead" {
		t.Errorf("%s, want dead", got)
	}
}

// A program that does not run the helper must not be started as one: this test binary would run all
// tests, each of which would start one more.
func TestHelperNeedsDispatch(t *testing.T) {
	dispatched = false // TestMain has forgotten
	defer func() { dispatched = true }()
	if _, err := (&Process{}).startHelper(); err == nil {
		t.Error("a program that runs no helper starts one")
	}
}

// Killed between starting the helper and sending the command, mandate leaves nothing behind.
func TestHelperEndsWithoutACommand(t *testing.T) {
	p := &Process{exited: make(chan struct{}), gone: make(chan struct{})}
	reports, err := p.startHelper()
	if err != nil {
		t.Fatal(err)
	}
	defer reports.Close()
	p.orders.Close() // as the kernel does it when we die
	ended := make(chan error)
	go func() { ended <- p.helper.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it says that a command has ended")
		}
	case <-time.After(waitLimit):
		p.helper.Process.Kill()
		t.Fatal("it waits on")
	}
}
