package health

import (
	"context"
	"errors"
	"fmt"
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

// Func is a function as a [Probe].
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

func (n *named) Arm()    { arm(n.probe) }
func (n *named) Disarm() { disarm(n.probe) }

var errNilProbe = errors.New("the probe is nil")

func arm(p Probe) {
	if a, ok := p.(Armer); ok {
		a.Arm()
	}
}

func disarm(p Probe) {
	if a, ok := p.(Armer); ok {
		a.Disarm()
	}
}
