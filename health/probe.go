// Package health answers one question, cheaply and without ever blocking on it:
// is this process fit to lead?
//
// A [Probe] checks one thing. A [Runner] runs a probe again and again in the
// background and keeps a [Status] which is safe to read on any path, also on the
// one that renews a lease: reading it does no I/O and never waits for a probe.
//
// # Two roles
//
// A candidate probe looks at what a process needs before it may lead: its database,
// its disk, its network. It is checked at all times. Run it with [Runner.Run], which counts
// as unhealthy until the first success.
//
// A work probe looks at work that only a leader does: a [Heartbeat], a port that
// only the leader opens. It can pass only while the work runs. Run it with
// [Runner.RunArmed] for the length of one term: the start counts as the first
// success. As a candidate probe it would shut every candidate out for ever.
//
// # What a runner promises
//
//   - One probe run at a time. A probe that ignores its context and hangs for ever
//     costs one goroutine, however long it hangs.
//   - A run that takes longer than [Settings.Timeout] is a failure, and each interval
//     that it keeps hanging is one more. A panic is a failure.
//   - A threshold: [Settings.Failures] in a row to become unhealthy. One error marked with [Definite] is
//     enough, and so is one success to recover.
//
// Time is Go's monotonic time, except for [FileAge], which has to compare with the
// file system's clock. After the process was suspended, the last verdict counts until the next run has ended,
// which begins at once.
package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Probe checks one thing that health depends on.
//
// Check returns nil when that is healthy, else an error that tells the engineer on call what
// is wrong. It should return soon after ctx has ended; a [Runner] copes with a Check that
// doesn't. Check must be safe for concurrent use when the probe is given to more than one
// runner.
type Probe interface {
	Check(ctx context.Context) error
}

// Func is a function as a [Probe], such as the PingContext of a *sql.DB.
type Func func(ctx context.Context) error

// Check calls f.
func (f Func) Check(ctx context.Context) error { return f(ctx) }

// Armer is implemented by probes that can only pass while the work runs, such as
// [Heartbeat]. [Runner.RunArmed] calls Arm before its first probe run and Disarm when it
// returns. [Named] and [All] pass both on. Neither of them may block.
type Armer interface {
	Arm()
	Disarm()
}

// Definite marks an error as enough on its own: a [Runner] becomes unhealthy at the first
// one, whatever [Settings.Failures] is. It is for probes that have a threshold of their own,
// where a second run can't find more than the first: checking an overdue heartbeat again
// would only delay the step-down.
//
// The text stays that of err, and errors.Is and errors.As find err. Definite(nil) is nil. A
// runner recognizes such errors by their method `Definite() bool`, so a package can mark its
// own error types without importing this one.
func Definite(err error) error {
	if err == nil {
		return nil
	}
	return &definiteError{err}
}

type definiteError struct{ err error }

func (e *definiteError) Error() string  { return e.err.Error() }
func (e *definiteError) Unwrap() error  { return e.err }
func (e *definiteError) Definite() bool { return true }

func isDefinite(err error) bool {
	var d interface{ Definite() bool }
	return errors.As(err, &d) && d.Definite()
}

// Named puts "name: " before the errors of p, so that the reason of a step-down shows
// which of several probes failed. It passes Arm and Disarm on.
func Named(name string, p Probe) Probe { return &named{name, p} }

type named struct {
	name  string
	probe Probe
}

func (n *named) Check(ctx context.Context) error {
	if n.probe == nil {
		return n.prefix(errNilProbe)
	}
	return n.prefix(n.probe.Check(ctx))
}

func (n *named) prefix(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", n.name, err)
}

func (n *named) Arm()    { armer(n.probe, Armer.Arm) }
func (n *named) Disarm() { armer(n.probe, Armer.Disarm) }

var errNilProbe = errors.New("the probe is nil")

// armer calls Arm or Disarm of a probe that has them.
func armer(p Probe, call func(Armer)) {
	if a, ok := p.(Armer); ok {
		call(a)
	}
}

// short rounds a measured time for reading; no reader needs "3.200184113s" in a reason.
func short(d time.Duration) time.Duration {
	for unit := time.Second; unit >= 10*time.Millisecond; unit /= 10 {
		if d >= 10*unit {
			return d.Round(unit)
		}
	}
	if d >= time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Microsecond)
}

// maxExcerpt bounds foreign text in an error, in bytes: it is copied into events, logs and Redis.
const maxExcerpt = 200

// excerpt turns what another program wrote into one printable line. With control characters that
// program could forge log lines, or control the terminal of anyone who reads the status.
func excerpt(b []byte) string {
	line := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(string(bytes.TrimSpace(b)), "?"))
	line = strings.TrimSpace(line)
	if len(line) <= maxExcerpt {
		return line
	}
	return strings.ToValidUTF8(line[:maxExcerpt], "") + "..."
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte("\n"))
	return excerpt(line)
}

func lastLine(b []byte) string {
	b = bytes.TrimSpace(b)
	return excerpt(b[bytes.LastIndexByte(b, '\n')+1:])
}
