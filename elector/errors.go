package elector

import (
	"context"
	"errors"
	"fmt"

	"github.com/mandate-dev/mandate/elector/internal/setting"
)

// Errors that a caller may want to distinguish. They come wrapped: compare with errors.Is.
var (
	// ErrPermanent means that Run ended because waiting can't help: a wrong password, a
	// missing right, the same server listed twice, an election with the name of a group of
	// shards, or of an election of such a group. The text names the remedy.
	ErrPermanent = errors.New("permanent misconfiguration")
	// ErrNoLeader means that no candidate leads at the moment.
	ErrNoLeader = errors.New("no leader")
	// ErrClosed means that the Quorum was closed.
	ErrClosed = errors.New("the quorum is closed")
	// ErrNotLeader means that this candidate does not lead: Gate.Do did nothing, or Campaign was not elected.
	ErrNotLeader = errors.New("not the leader")
	// ErrUnreachable means that no majority of the Redis nodes gave a usable answer. A NodeError for
	// each node that failed is in it; errors.As finds the first.
	ErrUnreachable = errors.New("no majority of the Redis nodes gave a usable answer")
	// ErrDenied is an ErrUnreachable because the Redis user lacks a right, which the text names.
	ErrDenied = explain("the Redis user lacks a right", ErrUnreachable)
	// ErrRefused means that a request can't be met; the text gives the reason. Run and Campaign return it while one of
	// them is already running, or a term of an earlier Campaign has not been closed.
	ErrRefused = errors.New("refused")
	// ErrNotReleased means that the lock of a term could not be released, because no majority
	// of the Redis nodes answered until it lapsed. No other candidate could be elected before
	// that; now any can. errors.As finds a NodeError in it.
	ErrNotReleased = errors.New("the lock was not released")
)

// explained is an error with a text of its own, in which errors.Is and errors.As find its causes.
type explained struct {
	text   string
	causes []error
}

func explain(text string, causes ...error) error { return &explained{text, causes} }

func (e *explained) Error() string   { return e.text }
func (e *explained) Unwrap() []error { return e.causes }

// failed makes an error with a text of its own, in which errors.Is finds kind.
func failed(kind error, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return explain(err.Error(), kind, err)
}

// newRefusal returns an ErrRefused whose text is the reason.
func newRefusal(format string, args ...any) error { return failed(ErrRefused, format, args...) }

// Reason is why a term ended.
type Reason string

// The reasons for the end of a term.
const (
	ReasonShutdown  Reason = "shutdown"  // the context of Run ended, or the Quorum was closed
	ReasonResigned  Reason = "resigned"  // on request: Resign, an operator
	ReasonHandover  Reason = "handover"  // in favour of another candidate: transfer, Succession, MaxTerm
	ReasonUnhealthy Reason = "unhealthy" // a probe failed beyond its threshold
	ReasonLost      Reason = "lost"      // a majority of the nodes no longer held the leader's lock
	ReasonDataLost  Reason = "data-lost" // as lost, since they had lost all data of the election
	ReasonExpired   Reason = "expired"   // no renewal succeeded before the deadline: the Err is why
	ReasonFinished  Reason = "finished"  // the work returned nil
	ReasonFailed    Reason = "failed"    // the work returned an error
	ReasonPanicked  Reason = "panicked"  // the work panicked or called runtime.Goexit
	// ReasonCrashed is reported by the supervisor of the leading process (package supervisor): the
	// process died without releasing the lock, and the supervisor released it.
	ReasonCrashed Reason = "crashed"
	// ReasonVanished appears in the history only: the end of the term was never reported. The
	// leader's process was killed, or cut off from Redis.
	ReasonVanished Reason = "vanished"
)

// Wanted reports whether the end was intended: by the program (shutdown, finished work), or on
// request (resigned, handed over). Ends for any other reason are logged as warnings. A reason
// that this version does not know is not wanted either.
func (r Reason) Wanted() bool { return r.voluntary() || r == ReasonFinished }

// voluntary reports whether the leader keeps its lease while the work drains. After any other
// reason it never renews again.
func (r Reason) voluntary() bool {
	return r == ReasonShutdown || r == ReasonResigned || r == ReasonHandover
}

// ConfigError is the error for a configuration that can't work, of New, Open, NewQuorum, Quorum.Election, Quorum.Elections
// and others. It lists every problem, and errors.Is and errors.As look into each of them. Its method Problems(names) returns
// a sentence for each, in which a setting (a field of Config, "Prefix" of Namespace, "URL 2" of Open, "client 2" of
// NewQuorum) has the name that the function names returns for it, such as that of a flag.
type ConfigError = setting.Errors

// Ended is how a term ended: the cause of the work's context (context.Cause),
// and what Term.Err returns.
type Ended struct {
	Reason Reason
	Err    error // the probe's or the work's error, why a lease was not renewed, or the cause of a shutdown (context.Cause); may be nil
}

func (e *Ended) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("term ended: %s: %v", e.Reason, e.Err)
	}
	return "term ended: " + string(e.Reason)
}

func (e *Ended) Unwrap() error { return e.Err }

// shutdownCause returns the cause that the caller gave for the end of its context; nil if that is
// only context.Canceled.
func shutdownCause(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// detail returns the problem for the log, the events and the history. The cause of a shutdown is
// only for the caller.
func (e *Ended) detail() string {
	if e.Err == nil || e.Reason == ReasonShutdown {
		return ""
	}
	return e.Err.Error()
}

// summary returns the reason with its detail.
func (e *Ended) summary() string {
	if detail := e.detail(); detail != "" {
		return string(e.Reason) + ": " + detail
	}
	return string(e.Reason)
}

// RestartError is returned by work that failed and is to run again as if it had returned
// nil: the term ends as ReasonFailed with Err as the detail, so that the history shows why,
// and the candidate campaigns again after a tenth of the lease, which doubles each time that this
// happens in a row. Err may be nil. If it is an *Ended of ReasonExpired, such as another process sees that has stopped
// the work at the deadline, so the term ends. Any other error ends Run.
type RestartError struct{ Err error }

func (e *RestartError) Error() string {
	if e.Err == nil {
		return "the work is to run again"
	}
	return e.Err.Error()
}

func (e *RestartError) Unwrap() error { return e.Err }
