package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// actionRequest is the body of a POST.
type actionRequest struct {
	Election string `json:"election"`
	To       string `json:"to,omitempty"`
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`     // the operator who requests it
	Force    bool   `json:"force,omitempty"`  // resign even if no other candidate could lead
	ForMS    int64  `json:"for_ms,omitempty"` // of a pause; 0: until it is resumed
	Host     string `json:"host,omitempty"`   // of a drain, instead of the election
	PID      int    `json:"pid,omitempty"`    // on that host
	ID       string `json:"id,omitempty"`     // of a candidate
}

// actionResult is the answer to a successful request.
type actionResult struct {
	Result string `json:"result"`
}

// operatorAction performs a request, and returns its result as text.
type operatorAction func(context.Context, *elector.Election, actionRequest) (string, error)

var actions = map[string]operatorAction{"resign": resign, "transfer": transfer, "pause": pauseElection, "resume": resume}

func resign(ctx context.Context, el *elector.Election, o actionRequest) (string, error) {
	if !o.Force {
		if _, err := el.Successors(ctx); err != nil {
			return "", err
		}
	}
	h, err := el.StepDown(ctx, o.Reason)
	return handover(h), err
}

func transfer(ctx context.Context, el *elector.Election, o actionRequest) (string, error) {
	if o.To == "" {
		return "", errors.New("to is missing: the id of a candidate")
	}
	h, err := el.Transfer(ctx, o.To)
	return handover(h), err
}

func pauseElection(ctx context.Context, el *elector.Election, o actionRequest) (string, error) {
	const maxPause = 366 * 24 * time.Hour
	if o.ForMS < 0 || o.ForMS > maxPause.Milliseconds() {
		return "", fmt.Errorf("for_ms is %d: give a time of at most a year, or 0 for no end", o.ForMS)
	}
	if limit := 400; len(o.Reason) > limit {
		return "", fmt.Errorf("a reason of %d bytes: at most %d", len(o.Reason), limit)
	}
	return result("paused: no new leader will be elected", el.Pause(ctx, time.Duration(o.ForMS)*time.Millisecond, o.Reason))
}

func resume(ctx context.Context, el *elector.Election, o actionRequest) (string, error) {
	return result("resumed", el.Resume(ctx))
}

// result returns what a majority of the nodes did, with the errors of the others appended.
func result(done string, err error) (string, error) {
	switch {
	case err == nil:
		return done, nil
	case errors.Is(err, elector.ErrUnreachable), errors.Is(err, elector.ErrRefused):
		return "", err // it was not done
	}
	return done + "; " + problemText(err), nil
}

func handover(h elector.Handover) string {
	if h.To.Token == 0 {
		return ""
	}
	done := fmt.Sprintf("%s leads, token %d", bounded(h.To.Candidate), h.To.Token)
	if h.Gap > 0 {
		done += fmt.Sprintf(", %.1f ms after %s had stopped", float64(h.Gap)/1e6, bounded(h.From.Candidate))
	}
	return done
}
