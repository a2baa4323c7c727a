package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// topAction performs an action that an operator has confirmed, and returns its result as text.
type topAction func(ctx context.Context, q *elector.Quorum, by string) string

// topView is the state of the screen. Only the goroutine of runTop accesses it.
type topView struct {
	title    string
	all      []report
	read     bool
	err      error
	chosen   string // the name of the selected election
	filter   string
	typing   bool      // the filter is being typed
	ask      string    // a question to the operator that is not answered yet
	action   topAction // to perform when the answer is yes
	message  string
	notified time.Time // when message was set
}

// notify shows a message for a while: later it may no longer be true.
func (v *topView) notify(message string) { v.message, v.notified = message, time.Now() }

// messageAt returns the message, unless it is too old.
func (v *topView) messageAt(now time.Time) string {
	if now.Sub(v.notified) > messageFor && v.message != working {
		return ""
	}
	return v.message
}

const (
	messageFor = 15 * time.Second
	working    = "working"
)

// set takes what was read, and sorts it with problems first. If an election could not be read, its
// previous report stays and is marked as stale.
func (v *topView) set(all []report, err error) {
	v.err, v.read = err, true
	if len(all) == 0 && err != nil {
		for i := range v.all {
			v.all[i].stale = true
		}
		return
	}
	for i := range all {
		if all[i].err == nil {
			continue
		}
		if j := slices.IndexFunc(v.all, func(old report) bool { return old.Election == all[i].Election && old.err == nil }); j >= 0 {
			all[i] = v.all[j]
			all[i].stale = true
		}
	}
	slices.SortStableFunc(all, func(a, b report) int {
		return cmp.Or(cmp.Compare(a.urgency(), b.urgency()), cmp.Compare(a.Election, b.Election))
	})
	v.all = all
}

// asOf returns when the oldest stale report was read; empty if none is stale.
func (v *topView) asOf() string {
	var at time.Time
	for i := range v.all {
		if r := &v.all[i]; r.stale && (at.IsZero() || r.at.Before(at)) {
			at = r.at
		}
	}
	if at.IsZero() {
		return ""
	}
	return "as of " + at.Local().Format(time.TimeOnly) + ": "
}

// urgency returns the rank of a report in the list: the smallest is what needs an operator first.
func (r *report) urgency() int {
	why, _ := r.problem()
	switch state := r.state(); {
	case state == stateAbandoned:
		return 4
	case state == statePaused:
		return 2
	case state != stateLed:
		return 0
	case why != "":
		return 1
	default:
		return 3
	}
}

func (v *topView) shown() (shown []report, selected int) {
	for _, r := range v.all {
		if strings.Contains(r.Election, v.filter) {
			if r.Election == v.chosen {
				selected = len(shown)
			}
			shown = append(shown, r)
		}
	}
	return shown, selected
}

// keys handles what was typed: one key, or several that arrived together. It returns the action to
// perform, if any; keys typed after those that chose an action are dropped.
func (v *topView) keys(typed []byte) (action topAction, quit bool) {
	for len(typed) > 0 && action == nil && !quit {
		n := firstKey(typed)
		action, quit = v.key(string(typed[:n]))
		typed = typed[n:]
	}
	return action, quit
}

// firstKey returns how many bytes the first key has: a character, or the escape sequence of another
// key.
func firstKey(typed []byte) int {
	if len(typed) > 2 && typed[0] == '\x1b' && (typed[1] == '[' || typed[1] == 'O') {
		for i, b := range typed[2:] {
			if b >= 0x40 && b <= 0x7e { // the last byte of the sequence
				return i + 3
			}
		}
		return len(typed)
	}
	_, n := utf8.DecodeRune(typed)
	return n
}

func (v *topView) key(key string) (action topAction, quit bool) {
	shown, at := v.shown()
	move := func(to int) {
		if len(shown) > 0 {
			v.chosen = shown[min(max(0, to), len(shown)-1)].Election
		}
	}
	if v.message != working { // the next key removes an old message
		v.message = ""
	}
	switch {
	case key == "\x03": // Ctrl-C
		return nil, true
	case v.ask != "":
		action = v.action
		v.ask, v.action = "", nil
		if key != "y" && key != "Y" {
			v.notify("nothing was done")
			return nil, false
		}
		v.notify(working)
		return action, false
	case key == "\x1b":
		v.filter, v.typing = "", false
	case v.typing:
		v.typeFilter(key)
	case key == "q":
		return nil, true
	case key == "/":
		v.typing = true
	case key == "\x1b[A", key == "k":
		move(at - 1)
	case key == "\x1b[B", key == "j":
		move(at + 1)
	case len(shown) == 0:
	case (key == "r" || key == "p") && shown[at].group != nil:
		v.chosen = shown[at].Election
		v.notify("this is a group of shards: " + shown[at].flags.command("shards", shown[at].group.Group))
	case key == "r":
		v.chosen = shown[at].Election
		v.askStepDown(&shown[at])
	case key == "p":
		v.chosen = shown[at].Election
		v.askPause(&shown[at])
	}
	return nil, false
}

func (v *topView) typeFilter(key string) {
	switch {
	case key == "\r" || key == "\n":
		v.typing = false
	case key == "\x7f" || key == "\b":
		if n := len(v.filter); n > 0 {
			v.filter = v.filter[:n-1]
		}
	case key == output.Printable(key):
		v.filter += key
	}
}

func (v *topView) askStepDown(r *report) {
	if r.Leader == nil {
		v.notify(r.Election + " has no leader")
		return
	}
	if r.rollErr != nil {
		v.notify("the candidates are not known: whether another one could lead can't be checked")
		return
	}
	if r.Paused {
		v.notify("the election is paused, so no other candidate could lead: resume it first")
		return
	}
	able, err := r.Leader.SuccessorsIn(r.roll)
	if err != nil {
		v.notify(elector.Problem(err))
		return
	}
	name, leader := r.Election, *r.Leader
	v.ask, v.action = askStepDown(name, leader, able), func(ctx context.Context, q *elector.Quorum, by string) string {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		el, err := q.Election(name)
		if err != nil {
			return elector.Problem(err)
		}
		// The question may have been open for long.
		if now, err := el.Leader(ctx); err == nil && (now.Token != leader.Token || now.Incarnation != leader.Incarnation) {
			return name + ": the leader has changed meanwhile; nothing was done"
		}
		if _, err := el.Successors(ctx); err != nil {
			return name + ": " + elector.Problem(err)
		}
		h, err := el.As(by).StepDown(ctx, "")
		if err != nil {
			return name + ": " + elector.Problem(err)
		}
		return fmt.Sprintf("%s: %s leads, token %d", name, h.To.Candidate, h.To.Token)
	}
}

func (v *topView) askPause(r *report) {
	name, paused := r.Election, r.Paused
	v.ask = "Pause " + name + " until it is resumed? No new leader will be elected."
	if paused {
		v.ask = "Resume " + name + "?"
	}
	v.action = func(ctx context.Context, q *elector.Quorum, by string) string {
		el, err := q.Election(name)
		switch {
		case err != nil:
		case paused:
			err = el.As(by).Resume(ctx)
		default:
			err = el.As(by).Pause(ctx, 0, "")
		}
		switch {
		case err != nil:
			return name + ": " + elector.Problem(err)
		case paused:
			return name + ": election resumed"
		default:
			return name + " is paused"
		}
	}
}
