package elector

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// phrases are what is logged of a condition: when it begins, while it lasts, and when it has ended.
type phrases struct {
	level               slog.Level
	begins, lasts, ends string
}

// What befalls a candidate.
var (
	paused = phrases{
		slog.LevelInfo, "election paused, no new leader will be elected", "election still paused, no new leader will be elected", "election resumed",
	}
	unhealthy   = phrases{slog.LevelWarn, "unhealthy, not campaigning", "still unhealthy, cannot campaign", "healthy again"}
	campaigning = phrases{slog.LevelWarn, "cannot campaign", "still unable to campaign", "can campaign again"}
	handingOver = phrases{slog.LevelWarn, "not handing over to another candidate", "still not handing over to another candidate", "can hand over again"}
	renewing    = phrases{slog.LevelWarn, "cannot renew the lease", "still unable to renew the lease", "can renew the lease again"}
	overloaded  = phrases{slog.LevelWarn, "renewals are late", "renewals are still late", "renewals are in time again"}
)

// lasting is a condition in the log. While it lasts it is logged again after 10 s, after a minute, and
// every five minutes from then on: a single line at its begin would be long out of sight when an
// engineer looks for the reason why nothing happens. The zero value: there is no condition. Safe for
// concurrent use.
type lasting struct {
	mu          sync.Mutex // of all below
	what        string
	since, next time.Time
}

// note logs what is due at that time, with attrs unless it is the end. what identifies the condition; ""
// ends it. note reports whether that has begun or ended one.
func (l *lasting) note(log *slog.Logger, p phrases, what string, at time.Time, attrs ...any) (changed bool) {
	level, message, lasted := l.due(p, what, at)
	switch message {
	case "":
		return false
	case p.lasts:
		attrs = append([]any{"for", lasted}, attrs...)
	case p.ends:
		attrs = []any{"for", lasted}
	}
	log.Log(context.Background(), level, message, attrs...) //nolint:sloglint // a constant where the phrases are
	return message != p.lasts
}

func (l *lasting) due(p phrases, what string, at time.Time) (level slog.Level, message, lasted string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.what
	l.what = what
	switch {
	case what == "" && before == "":
		return 0, "", ""
	case what == "":
		return slog.LevelInfo, p.ends, unit(at.Sub(l.since))
	case what != before:
		l.since, l.next = at, at.Add(10*time.Second)
		return p.level, p.begins, ""
	case at.Before(l.next):
		return 0, "", ""
	}
	if l.next = l.since.Add(time.Minute); !at.Before(l.next) {
		l.next = at.Add(5 * time.Minute)
	}
	return p.level, p.lasts, unit(at.Sub(l.since))
}

// unit formats a duration for the log and for errors: rounded to 100 ms, below that to 1 ms, and with its
// unit, which slog's JSON would leave out.
func unit(d time.Duration) string {
	if d < 100*time.Millisecond {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
