package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Job is a job whose ticks are taken with [fence.Once], as those of package schedule are.
type Job struct {
	fence.Taken

	Node  string        `json:"node"` // that keeps its mark
	Late  time.Duration `json:"-"`    // for how long the next tick has been due, by the node's clock
	Ahead time.Duration `json:"-"`    // for how long the job is blocked: the mark is in the future by the node's clock and by that of this host
}

// Ticks reads the jobs of an election whose marks are on its nodes, by name; of a job that several nodes keep, the newest
// mark. It makes one request to each node, and two more where there are jobs, and waits for them as
// Election.Status does. What could not be read, and marks of other programs, are in the error, beside the others.
func Ticks(ctx context.Context, el *elector.Election) ([]Job, error) {
	return ticks(ctx, el, func(ctx context.Context, n *nodes.Node) ([]string, error) {
		names := redis.NewStringSliceCmd(ctx, "zrevrange", protocol.KeysOf(el.Prefix(), el.Name()).Jobs(), 0, -1)
		err := n.Do(ctx, names)
		return names.Val(), err
	})
}

// readTicks reads the marks of the jobs that a look has found.
func (r *Report) readTicks(ctx context.Context, el *elector.Election) {
	r.Ticks, r.TicksErr = ticks(ctx, el, func(_ context.Context, n *nodes.Node) ([]string, error) {
		i := slices.IndexFunc(r.Nodes, func(seen elector.NodeStatus) bool { return seen.Node == n.Name })
		if i < 0 {
			return nil, r.StatusErr
		}
		return r.Nodes[i].Jobs, errors.Unwrap(r.Nodes[i].JobsErr) // without the node, which comes back
	})
}

// ticks reads the jobs whose names each node has.
func ticks(ctx context.Context, el *elector.Election, names func(context.Context, *nodes.Node) ([]string, error)) ([]Job, error) {
	ns := el.Nodes(module.Only{})
	if ns == nil {
		return nil, errNoQuorum
	}
	read := func(ctx context.Context, n *nodes.Node) ([]Job, error) {
		jobs, err := names(ctx, n)
		return ticksOn(ctx, n, el, jobs, err)
	}
	newest := map[string]Job{}
	var errs []error
	for _, a := range nodes.Ask(ctx, ns, nodeTimeout, nodeTimeout/6, read, nodes.Majority[[]Job](ns)) {
		errs = append(errs, a.Err)
		for _, j := range a.Value {
			if last, ok := newest[j.Job]; !ok || j.Tick.After(last.Tick) {
				newest[j.Job] = j
			}
		}
	}
	return slices.SortedFunc(maps.Values(newest), func(a, b Job) int { return strings.Compare(a.Job, b.Job) }), errors.Join(errs...)
}

// ticksOn reads the marks of jobs on a node. err is why their names could not be read.
func ticksOn(ctx context.Context, n *nodes.Node, el *elector.Election, names []string, err error) ([]Job, error) {
	keys := "+zrevrange +hgetall +time %R~" + el.Prefix() + ":{" + el.Name() + "}:*"
	switch {
	case err == nil && len(names) == 0:
		return nil, nil
	case err != nil && !rediserr.WrongType(err):
		return nil, rediserr.Needs(err, keys)
	}
	once, onceErr := fence.NewOnce(n.Client(), el)
	if onceErr != nil {
		return nil, onceErr
	}
	taken, readErr := once.Read(ctx, names)
	if err != nil {
		taken, readErr = once.All(ctx) // which explains why not
	}
	if len(taken) == 0 {
		return nil, rediserr.Needs(readErr, keys)
	}
	now, err := n.Client().Time(ctx).Result()
	if err != nil {
		return nil, rediserr.Needs(err, "+time")
	}
	var jobs []Job
	for _, t := range taken {
		jobs = append(jobs, Job{t, n.Name, t.Overdue(now), min(t.Blocked(now), t.Blocked(time.Now()))})
	}
	return jobs, readErr
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lateIn is after how long a tick counts as overdue: sooner a failover, or clocks that differ, may be why.
const lateIn = time.Minute

// Problem returns what is wrong with the job, and what to do about it. Both are empty if it runs well, or if its tick
// has been due for less than a minute. command is that of a Config.
func (j *Job) Problem(election string, command func(verb string, args ...string) string) (found, advice string) {
	server, on := "", " on "+j.Node
	if host, port, err := net.SplitHostPort(j.Node); err == nil {
		server, on = " -h "+host+" -p "+port, ""
	}
	forget := "redis-cli" + server + " DEL '" + strings.ReplaceAll(j.Mark, "'", `'\''`) + "'" + on
	run := ""
	switch r := j.Run; {
	case r.Outcome == fence.Unknown:
		run = fmt.Sprintf("the last run of %s did not report its end: %s has died, or was cut off", j.Job, r.By)
		advice = "its work may be half done: it is not run again"
	case r.Outcome == "" && j.Late > lateIn:
		run = "it has been running since " + r.Began.UTC().Format(time.RFC3339)
	case r.Outcome != "" && r.Outcome != fence.OK && r.Outcome != fence.Removed:
		advice = "the log of " + r.By + " has more"
		run = fmt.Sprintf("the last run of %s, by %s, %s: %s", j.Job, r.By, r.Outcome, r.Error)
	}
	switch {
	case j.Ahead > 0:
		return fmt.Sprintf("%s is blocked for another %v: its mark is in the future", j.Job, j.Ahead.Truncate(time.Second)),
			"if that clock was wrong, and is right again: " + forget
	case j.Late > lateIn:
		found = fmt.Sprintf("%s has been overdue for %v", j.Job, j.Late.Truncate(time.Second))
		if run != "" {
			found += "; " + run
		}
		return found, command("status", election) + ", and the leader's log of " + j.Job + "; if no program has this job any more: " + forget
	case run != "":
		return run, advice
	}
	return "", ""
}

// ticks reports jobs that do not run, and ticks of the last hour that nobody ran.
func (e *examination) ticks(r *Report) {
	advice := e.command("ticks", r.Election)
	var problems, skipped []string
	var found time.Time // when the newest ones of skipped were
	for i := range r.Ticks {
		j := &r.Ticks[i]
		switch what, _ := j.Problem(r.Election, e.command); {
		case what != "" && j.Ahead == 0 && j.Late <= lateIn:
			problems = append(problems, fmt.Sprintf("%s (%s)", j.Job, j.Run.Outcome))
		case what != "":
			problems = append(problems, what)
		}
		if len(j.Skipped) > 0 && time.Since(j.Skipped[0].Found) < lossIn {
			found = latest(found, j.Skipped[0].Found)
			skipped = append(skipped, fmt.Sprintf("%s (%s)", j.Job, cmp.Or(j.Skipped[0].Reason, "no reason given")))
		}
	}
	if len(problems) > 0 {
		e.add("", "ticks", LevelWarn, advice, "jobs that do not run well (%d of %d): %s", len(problems), len(r.Ticks), list(problems))
	}
	if len(skipped) > 0 {
		e.add("", "skipped", LevelNote, advice, "ticks were not run, as was found in the last hour: %s", list(skipped))
		e.since(found)
	}
	switch err := r.TicksErr; {
	case errors.Is(err, fence.ErrForeignMark): // no tick of that job can be taken
		e.add("", "ticks", LevelWarn, advice, "%s", problemOf(err))
	case err != nil && r.StatusErr == nil:
		e.unseen("", "ticks", "", err, "they can't be read: %s", problemOf(err))
	}
}
