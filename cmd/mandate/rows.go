package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/shard"
)

// allShards follows the name of a group in that of its row: a pattern for ls that matches its elections.
const allShards = "#*"

// electionRows returns a row for each election, before it is read.
func electionRows(names []string) []report {
	rows := make([]report, len(names))
	for i, name := range names {
		rows[i].Election = name
	}
	return rows
}

// foldedRows returns a row for each election, before it is read. The shards of a group are one row; those of
// the groups come first.
func foldedRows(names []string) (rows []report) {
	others, groups := shard.Split(names)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		rows = append(rows, groupRow(name, groups[name]))
	}
	return append(rows, electionRows(others)...)
}

// groupRow returns the row of a group, of which these shards have an election, before it is read.
func groupRow(name string, listed shard.Set) (r report) {
	r.Election = name + allShards
	r.group = &groupReport{Status: shard.Status{Group: name}, listed: listed}
	return r
}

// parallelReads is how many elections or groups are read concurrently: enough that candidates that do not
// answer delay few others, and few enough not to disturb other users of the Redis nodes.
const parallelReads = 128

// readWithin bounds the time for reading all elections.
const readWithin = 10 * time.Second

// readAll reads all rows, with so many terms of each election. The error is that of the first one for which no
// majority answered, or else another one about what could not be read.
func readAll(ctx context.Context, q *elector.Quorum, rows []report, terms int) error {
	ctx, done := context.WithTimeout(ctx, readWithin)
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var unreached atomic.Int32
	var reading sync.WaitGroup
	turns := make(chan struct{}, parallelReads)
	for i := range rows {
		turns <- struct{}{}
		reading.Go(func() {
			defer func() { <-turns }()
			r := &rows[i]
			r.read(ctx, q, terms)
			if errors.Is(r.StatusErr, elector.ErrUnreachable) && !errors.As(r.StatusErr, new(redis.Error)) && unreached.Add(1) > 3 {
				cancel(r.StatusErr) // reading the others would fail in the same way
			}
		})
	}
	reading.Wait()
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // see missingRolls
	}
	for i := range rows { // errors of single elections: an invalid name, or keys that another program wrote
		err = cmp.Or(err, rows[i].StatusErr)
	}
	return cmp.Or(err, missingRolls(rows))
}

// read reads a row, also one that was read before.
func (r *report) read(ctx context.Context, q *elector.Quorum, terms int) {
	if r.group != nil {
		r.readGroup(ctx, q)
		return
	}
	name := r.Election
	el, err := q.Election(name)
	if err == nil {
		r.Report = doctor.Read(ctx, el, terms)
		r.CandidatesErr = cmp.Or(r.CandidatesErr, ctx.Err()) // candidates may be missing in a roll that was cut off
		err = r.StatusErr
	}
	r.Election, r.StatusErr = name, err
}

func (r *report) readGroup(ctx context.Context, q *elector.Quorum) {
	g, name := r.group, r.group.Group
	st, err := shard.Read(ctx, q, name)
	if g.gone, g.missed = errors.Is(err, shard.ErrNoGroup), false; g.gone {
		st.Shards = len(g.listed)
		for _, n := range g.listed {
			st.Unowned = append(st.Unowned, shard.Vacancy{Shard: n})
		}
		var el *elector.Election
		if el, err = q.Election(shard.ElectionOfAssigner(name)); err == nil {
			r.Terms, r.TermsErr = el.History(ctx, 1)
			g.missed = !r.longGone()
		}
	}
	st.Group = name
	g.Status, r.StatusErr = st, err
}

// missingRolls returns an error if the candidates of some elections are unknown, usually because
// time was up. It returns nil if all are known, or if this Redis user may not call the roll.
func missingRolls(all []report) error {
	missing := slices.DeleteFunc(slices.Clone(all), func(r report) bool {
		return r.StatusErr != nil || r.CandidatesErr == nil || errors.Is(r.CandidatesErr, elector.ErrDenied)
	})
	if len(missing) == 0 {
		return nil
	}
	why := missing[0].CandidatesErr.Error()
	if errors.Is(missing[0].CandidatesErr, context.DeadlineExceeded) {
		why = "they did not all answer within " + readWithin.String()
	}
	return fmt.Errorf("the candidates of %d of %d elections are not known, such as %s: %s", len(missing), len(all), missing[0].Election, why)
}

// nodeProblem returns what is wrong with the nodes, if several elections show it, and leaves it out of their rows.
func nodeProblem(all []report) (fields []output.Field) {
	seen := map[string]int{}
	for i := range all {
		if all[i].group != nil {
			continue
		}
		for _, f := range all[i].problems() {
			if seen[f.Found]++; (f.Check == "majority" || f.Check == "same-server") && seen[f.Found] == 2 && len(fields) == 0 {
				fields = []output.Field{{Name: "problem", Text: f.Found, Color: output.Red}, {Name: "next", Text: f.Advice, Color: output.Yellow}}
			}
		}
	}
	if len(fields) > 0 {
		for i := range all {
			all[i].hidden = fields[0].Text
		}
	}
	return fields
}
