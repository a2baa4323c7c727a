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

// shutdownCause is what the caller gave as the cause of the end of its context; nil: no
// more than that it was canceled.
func shutdownCause(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// detail goes to the log, the events and the history. Why the caller's context ended is
// for the caller.
func (e *Ended) detail() string {
	if e.Err == nil || e.Reason == ReasonShutdown {
		return ""
	}
	return Problem(e.Err)
}

// summary is the reason with its detail.
func (e *Ended) summary() string {
	if detail := e.detail(); detail != "" {
		return string(e.Reason) + ": " + detail
	}
	return string(e.Reason)
}

// RestartError is the error of work that failed and is to run again as if it had returned
// nil: the term ends as ReasonFailed with Err as the detail, so that the history shows why,
// and the candidate runs again after Config.RestartDelay. Config.RetryFailed, which gives
// other errors the longer Cooldown, does not matter.
type RestartError struct{ Err error }

func (e *RestartError) Error() string { return Problem(e.Err) }

func (e *RestartError) Unwrap() error { return e.Err }

func restarts(err error) bool {
	var again *RestartError
	return errors.As(err, &again)
}
