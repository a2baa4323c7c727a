package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// RecentTerms is how many of the newest terms are examined.
const RecentTerms = 50

// recentTerms reads the newest terms of the history.
func recentTerms(ctx context.Context, el *elector.Election) ([]elector.TermRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return el.History(ctx, RecentTerms)
}

// unreadable reports a history that can't be read because a right is missing, or that can be neither
// read nor written because its key has another type. Other checks report nodes that are down, or
// that refuse this user.
func (e *examination) unreadable(err error) {
	var node *elector.NodeError
	switch {
	case !errors.As(err, &node):
	case errors.Is(err, elector.ErrDenied):
		e.add("", "history", LevelUnknown, "grant +xrevrange to see it", "%s can't be read: %v", cmp.Or(e.keys.History, "the history"), node.Err)
	case rediserr.WrongType(node.Err):
		e.add("", "history", LevelWarn, "look at it with redis-cli TYPE '"+e.keys.History+"'; if it is no stream and nothing else uses it: redis-cli DEL",
			"%s can't be read, and no term is recorded: %v", cmp.Or(e.keys.History, "the history"), node.Err)
	}
}

// Unreported returns the terms without the reason "vanished" where the process that led the term still
// answers the roll call. Such a process has not vanished with its machine: it has only not
// reported the end of its term.
func Unreported(terms []elector.TermRecord, roll []elector.CandidateStatus, now time.Time) []elector.TermRecord {
	terms = slices.Clone(terms)
	for i, r := range terms {
		lives := slices.ContainsFunc(roll, func(c elector.CandidateStatus) bool {
			return c.ID == r.Candidate && c.RunningFor > 0 && !r.From.IsZero() && now.Add(-c.RunningFor).Before(r.From)
		})
		if r.Reason == elector.ReasonVanished && lives {
			terms[i].Reason = ""
		}
	}
	return terms
}

// An election is flapping when its leadership was lost flaps times within flapsIn.
const (
	flaps   = 3
	flapsIn = 10 * time.Minute
)

// flapping reports an election whose leadership is lost again and again.
func (e *examination) flapping(name string, terms []elector.TermRecord, now time.Time) {
	if found, reason := flappingOf(terms, now); found != "" {
		advice := unwanted[reason]
		if reason != elector.ReasonFailed && reason != elector.ReasonPanicked { // for these the advice points to the log
			advice += ": " + e.command("history", name)
		}
		if i := slices.IndexFunc(terms, func(t elector.TermRecord) bool { return !t.Current && t.Reason == reason && t.Detail != "" }); i >= 0 {
			found += " (" + terms[i].Detail + ")"
		}
		e.add("", "flapping", LevelWarn, advice, "%s", found)
	}
}

// flappingOf reports whether the leadership was lost at least three times in the last ten minutes
// although no operator requested it, and how most of these terms ended. found is empty if it was
// not.
func flappingOf(terms []elector.TermRecord, now time.Time) (found string, most elector.Reason) {
	count := map[elector.Reason]int{}
	all := 0
	for _, r := range terms {
		end := cmp.Or(r.Until, r.From)                                             // From: of a term that vanished
		if r.Current || now.Sub(end).Abs() > flapsIn || unwanted[r.Reason] == "" { // a leader's clock may be ahead
			continue
		}
		all++
		if count[r.Reason]++; count[r.Reason] > count[most] {
			most = r.Reason
		}
	}
	if all < flaps {
		return "", ""
	}
	return fmt.Sprintf("%d terms of the last %d min ended unwanted: %s", all, int(flapsIn.Minutes()), byReason(count)), most
}

// byReason lists how often each reason occurred, the most frequent first.
func byReason(count map[elector.Reason]int) string {
	reasons := slices.SortedFunc(maps.Keys(count), func(a, b elector.Reason) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(reasons))
	for i, r := range reasons {
		parts[i] = fmt.Sprintf("%d %s", count[r], r)
	}
	return strings.Join(parts, ", ")
}

// unwanted are the reasons that need an explanation, each with the advice where to look for it.
var unwanted = map[elector.Reason]string{
	elector.ReasonUnhealthy: "fix the work or its probe",
	elector.ReasonExpired:   "see which nodes did not confirm the renewals, or whether processes were suspended",
	elector.ReasonLost:      "find out what deletes, evicts or loses the lock",
	elector.ReasonFailed:    "the work fails: read its log, on the hosts of the candidates",
	elector.ReasonPanicked:  "the work fails: read its log, on the hosts of the candidates",
	elector.ReasonCrashed:   "look for processes that are killed, and at their machines",
	elector.ReasonVanished:  "look for processes that are killed, and at their machines",
}
