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
	ns := el.Nodes(module.Only{})
	if ns == nil {
		return nil, errNoQuorum
	}
	read := func(ctx context.Context, n *nodes.Node) ([]Job, error) { return ticksOn(ctx, n, el) }
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

func ticksOn(ctx context.Context, n *nodes.Node, el *elector.Election) ([]Job, error) {
	keys := "+zrevrange +hgetall +time %R~" + el.Prefix() + ":{" + el.Name() + "}:*"
	names := redis.NewStringSliceCmd(ctx, "zrevrange", protocol.KeysOf(el.Prefix(), el.Name()).Jobs(), 0, -1)
	err := n.Do(ctx, names)
	switch {
	case err == nil && len(names.Val()) == 0:
		return nil, nil
	case err != nil && !rediserr.WrongType(err):
		return nil, rediserr.Needs(err, keys)
	}
	once, err := fence.NewOnce(n.Client(), el)
	if err != nil {
		return nil, err
	}
	taken, err := once.Read(ctx, names.Val())
	if names.Err() != nil {
		taken, err = once.All(ctx) // which explains why not
	}
	if len(taken) == 0 {
		return nil, rediserr.Needs(err, keys)
	}
	now, terr := n.Client().Time(ctx).Result()
	if terr != nil {
		return nil, rediserr.Needs(terr, "+time")
	}
	var jobs []Job
	for _, t := range taken {
		jobs = append(jobs, Job{t, n.Name, t.Overdue(now), min(t.Blocked(now), t.Blocked(time.Now()))})
	}
	return jobs, err
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
	for i := range r.Ticks {
		j := &r.Ticks[i]
		switch found, _ := j.Problem(r.Election, e.command); {
		case found != "" && j.Ahead == 0 && j.Late <= lateIn:
			problems = append(problems, fmt.Sprintf("%s (%s)", j.Job, j.Run.Outcome))
		case found != "":
			problems = append(problems, found)
		}
		if len(j.Skipped) > 0 && time.Since(j.Skipped[0].Found) < lossIn {
			skipped = append(skipped, fmt.Sprintf("%s (%s)", j.Job, cmp.Or(j.Skipped[0].Reason, "no reason given")))
		}
	}
	if len(problems) > 0 {
		e.add("", "ticks", LevelWarn, advice, "jobs that do not run well (%d of %d): %s", len(problems), len(r.Ticks), list(problems))
	}
	if len(skipped) > 0 {
		e.add("", "skipped", LevelNote, advice, "ticks were not run, as was found in the last hour: %s", list(skipped))
	}
	switch err := r.TicksErr; {
	case errors.Is(err, fence.ErrForeignMark): // no tick of that job can be taken
		e.add("", "ticks", LevelWarn, advice, "%s", problemOf(err))
	case err != nil && r.StatusErr == nil:
		e.add("", "ticks", LevelUnknown, "", "they can't be read: %s", problemOf(err))
	}
}
