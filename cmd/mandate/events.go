package main

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// printEvents prints events until there are no more, or until a write fails.
func (a *app) printEvents(events iter.Seq[elector.Event], asJSON bool) error {
	first := true
	for ev := range events {
		var err error
		if asJSON {
			err = output.JSONLine(a.stdout, ev)
		} else {
			_, err = fmt.Fprintln(a.stdout, eventLine(ev, first))
		}
		first = false
		if err != nil {
			return err
		}
	}
	return nil
}

// eventLine formats an event for people. The first event is the state at the time of subscription.
func eventLine(ev elector.Event, first bool) string {
	at := ev.Time
	if first {
		at = time.Now()
	}
	who, what := eventText(ev)
	if ev.Kind != elector.EventVacant && ev.Kind != elector.EventSkipped {
		if ev.Advertise != "" {
			who += " (" + ev.Advertise + ")"
		}
		what = strings.TrimSpace(who + " " + what)
	}
	switch {
	case first && ev.Kind == elector.EventElected:
		what += ", since " + ev.Time.Local().Format(dateTimeZone)
	case first && ev.Kind == elector.EventVacant:
		what = "no leader"
	}
	return output.Printable(fmt.Sprintf("%s  %-9s %s", at.Local().Format("2006-01-02T15:04:05.000Z07:00"), ev.Kind, what))
}

// eventText returns the candidate that an event is about, and what happened.
func eventText(ev elector.Event) (who, what string) {
	switch ev.Kind {
	case elector.EventElected:
		return ev.Candidate, fmt.Sprintf("leads, token %d", ev.Token)
	case elector.EventReleased:
		why := string(ev.Reason)
		if ev.Detail != "" {
			why += ": " + ev.Detail
		}
		return ev.Candidate, fmt.Sprintf("stepped down (%s), token %d", why, ev.Token)
	case elector.EventAddress:
		return ev.Candidate, "has a new address"
	case elector.EventVacant:
		return "", "no leader: the leader vanished"
	case elector.EventSkipped:
		return "", fmt.Sprintf("%d events were left out: this reader is too slow", ev.Count)
	case elector.EventUnhealthy, elector.EventHealthy, elector.EventStopping, elector.EventOverrun:
		return ev.Candidate, ev.Detail
	default: // a kind of a later version
		return ev.Candidate, ev.Detail
	}
}
