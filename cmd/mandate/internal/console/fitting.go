package console

import (
	"context"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/vacancy"
	"github.com/mandate-dev/mandate/elector"
)

// missedTimeout bounds the reading of the histories of idle elections.
const missedTimeout = 2 * time.Second

// fitting returns the elections to show, at most limit of all, in which the idle ones come last. It
// prefers those in use, then those that are missed. Otherwise a thousand unused names could hide
// the one with the incident.
func fitting(ctx context.Context, q *elector.Quorum, limit int, all, idle []string) []string {
	if len(all) <= limit {
		return all
	}
	isIdle := func(name string) bool { _, is := slices.BinarySearch(idle, name); return is }
	from := slices.IndexFunc(all, isIdle)
	if from < 0 || from >= limit {
		return all[:limit]
	}
	wanted := missed(ctx, q, all[from:])
	rest := slices.Clone(all[from:])
	slices.SortStableFunc(rest, func(a, b string) int {
		switch {
		case wanted[a] == wanted[b]:
			return 0
		case wanted[a]:
			return -1
		default:
			return 1
		}
	})
	return slices.Concat(all[:from], rest)[:limit]
}

// missed returns those of the idle elections that had a leader a short time ago, so that all their
// candidates are gone at once. What can't be read in time counts as abandoned.
func missed(ctx context.Context, q *elector.Quorum, idle []string) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, missedTimeout)
	defer cancel()
	t, _ := q.Timeline(ctx, idle, 1, time.Now().Add(-vacancy.Missed)) // an error shows in each row
	led := map[string]bool{}
	for i := range t.Terms {
		led[t.Terms[i].Election] = true
	}
	return led
}

// idleAmong returns which of the shown elections are idle.
func idleAmong(shown, idle []string) map[string]bool {
	found := map[string]bool{}
	for _, name := range shown {
		if _, is := slices.BinarySearch(idle, name); is {
			found[name] = true
		}
	}
	return found
}
