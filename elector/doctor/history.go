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

// recentTerms are the last terms of the history.
func recentTerms(ctx context.Context, el *elector.Election) ([]elector.TermRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return el.History(ctx, RecentTerms)
}

// unreadable reports a history that can't be read, or be written either: a key of
// another type, or a right that is missing. That nodes are away, or refuse this user,
// other checks find.
func (e *examination) unreadable(err error) {
	var node *elector.NodeError
	switch {
	case !errors.As(err, &node):
	case errors.Is(err, elector.ErrDenied):
		e.add("", "history", LevelUnknown, "grant +xrevrange to see it", "%s can't be read: %v", e.keys.History, node.Err)
	case rediserr.WrongType(node.Err):
		e.add("", "history", LevelWarn, "look at it with redis-cli TYPE '"+e.keys.History+"'; if it is no stream and nothing else uses it: redis-cli DEL",
			"%s can't be read, and no term is recorded: %v", e.keys.History, node.Err)
	}
}

// Unreported takes the reason from terms that seem to have vanished although the process that
// led them is among the candidates that answer: it only has not reported their end. Nothing is
// wrong with its machine.
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

// overlaps names the newest terms that were valid at the same time.
func (e *examination) overlaps(terms []elector.TermRecord) {
	i := slices.IndexFunc(terms, func(r elector.TermRecord) bool { return len(r.Overlaps) > 0 })
	if i < 0 {
		return
	}
	newest := terms[i]
	who, level, count := []string{nameOf(newest)}, LevelWarn, 0
	unnamed := slices.Clone(newest.Overlaps) // too old to be listed, unless found below
	for j, r := range terms {
		if len(r.Overlaps) == 0 {
			continue
		}
		count++
		if r.Current {
			level = LevelFail
		}
		if j != i && slices.Contains(newest.Overlaps, r.Token) {
			who = append(who, nameOf(r))
			unnamed = slices.DeleteFunc(unnamed, func(token uint64) bool { return token == r.Token })
		}
	}
	for _, token := range unnamed[:min(5, len(unnamed))] {
		who = append(who, fmt.Sprintf("another (token %d)", token))
	}
	e.add("", "overlap", level, "look for work that was done twice, and for the cause: "+sameList,
		"%d terms of the history overlap, the newest are those of %s", count, strings.Join(who, " and "))
}

// A leadership that was lost so often within so long is flapping.
const (
	flaps   = 3
	flapsIn = 10 * time.Minute
)

// flapping reports an election whose leadership is lost again and again.
func (e *examination) flapping(name string, terms []elector.TermRecord, now time.Time) {
	if found, reason := Flapping(terms, RecentTerms, now); found != "" {
		advice := unwanted[reason]
		if reason != elector.ReasonFailed && reason != elector.ReasonPanicked { // of these the log knows more
			advice += ": " + e.command("history", name)
		}
		e.add("", "flapping", LevelWarn, advice, "%s", found)
	}
}

// Flapping reports, by the newest n terms of History, that the leadership was lost at least three
// times in the last ten minutes although no operator requested it, and how most of these terms
// ended. The text is empty when it was not. There may be more such terms than these n: then it
// counts at least so many.
func Flapping(terms []elector.TermRecord, n int, now time.Time) (found string, most elector.Reason) {
	count := map[elector.Reason]int{}
	all := 0
	more := false // before the oldest of them there may have been others
	for i, r := range terms {
		end := cmp.Or(r.Until, r.From)                 // of one that vanished
		if r.Current || now.Sub(end).Abs() > flapsIn { // a leader's clock may be ahead
			continue
		}
		more = more || i == n-1
		if unwanted[r.Reason] == "" {
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
	atLeast := ""
	if more {
		atLeast = "at least "
	}
	return fmt.Sprintf("%s%d terms of the last %d min ended unwanted: %s", atLeast, all, int(flapsIn.Minutes()), byReason(count)), most
}

// byReason is how often each reason was, the most frequent first.
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

// unwanted are the ends that need an explanation, and where to look for it.
var unwanted = map[elector.Reason]string{
	elector.ReasonUnhealthy: "fix the work or its probe",
	elector.ReasonExpired:   "see which nodes did not confirm the renewals, or whether processes were suspended",
	elector.ReasonLost:      "find out what deletes, evicts or loses the lock",
	elector.ReasonFailed:    "the work fails: read its log, on the hosts of the candidates",
	elector.ReasonPanicked:  "the work fails: read its log, on the hosts of the candidates",
	elector.ReasonCrashed:   "look for processes that are killed, and at their machines",
	elector.ReasonVanished:  "look for processes that are killed, and at their machines",
}

func nameOf(r elector.TermRecord) string {
	at := r.From
	if at.IsZero() {
		at = r.Until
	}
	return fmt.Sprintf("%s (token %d, %s)", r.Candidate, r.Token, at.UTC().Format(time.RFC3339))
}
