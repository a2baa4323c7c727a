package elector

import (
	"context"
	"errors"
	"fmt"
)

// Ended is how a term ended: the cause of the work's context (context.Cause),
// and what Term.Err returns.
type Ended struct {
	Reason Reason
	Err    error // the probe's or the work's error, an ExpiredError, or the cause of a shutdown (context.Cause); may be nil
}

func (e *Ended) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("elector: term ended: %s: %s", e.Reason, Problem(e.Err))
	}
	return fmt.Sprintf("elector: term ended: %s", e.Reason)
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
	return Problem(e.Err)
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
// and the candidate campaigns again after Config.RestartDelay. This does not depend on
// Config.RetryFailed, with which other errors lead to the longer Cooldown.
type RestartError struct{ Err error }

func (e *RestartError) Error() string { return Problem(e.Err) }

func (e *RestartError) Unwrap() error { return e.Err }

func restarts(err error) bool {
	var again *RestartError
	return errors.As(err, &again)
}
