package health

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// All returns a probe that passes when each of the probes passes, or when there are none.
// It runs them at the same time and joins the errors in the order of the probes, on one
// line: "db: refused; disk: full". Give each a name with [Named].
//
// Check returns at most 10 ms after ctx has ended; its error names the probes that have not
// answered. A probe that keeps hanging fails, and is not run again before it has returned:
// it costs one goroutine and doesn't hide the answers of the others. A panic is a failure
// of that probe. Arm and Disarm are passed on to each [Armer] among the probes.
func All(probes ...Probe) Probe {
	a := &all{}
	for _, p := range probes {
		a.members = append(a.members, &member{probe: p})
	}
	return a
}

type all struct{ members []*member }

type member struct {
	probe  Probe
	flight flight
}

func (a *all) Check(ctx context.Context) error {
	grace := 10 * time.Millisecond
	if deadline, ok := ctx.Deadline(); ok {
		// Less than the runner's own grace, so that the joined error, which names the
		// slow probe, reaches the runner in time.
		grace = min(grace, max(0, time.Until(deadline)/40))
	}
	errs := make([]error, len(a.members))
	var wg sync.WaitGroup
	for i, m := range a.members {
		wg.Go(func() { errs[i] = m.flight.check(ctx, m.probe, grace) })
	}
	wg.Wait()
	return join(errs)
}

func (a *all) Arm() {
	for _, m := range a.members {
		armer(m.probe, Armer.Arm)
	}
}

func (a *all) Disarm() {
	for _, m := range a.members {
		armer(m.probe, Armer.Disarm)
	}
}

// joined is errors.Join on one line: the text ends up in logs and in a status column.
type joined struct{ errs []error }

func join(errs []error) error {
	bad := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(bad) {
	case 0:
		return nil
	case 1:
		return bad[0]
	}
	return &joined{bad}
}

func (j *joined) Error() string {
	texts := make([]string, len(j.errs))
	for i, err := range j.errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (j *joined) Unwrap() []error { return j.errs }

// Definite reports whether any part is definite. Without this method errors.As would stop at
// the first part that has one, which may be a user's error that returns false.
func (j *joined) Definite() bool { return slices.ContainsFunc(j.errs, isDefinite) }
