package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/mandate-dev/mandate/elector"
)

const (
	drawEvery = 250 * time.Millisecond
	askEvery  = time.Second     // of a person's patience; one script per node
	callEvery = 5 * time.Second // the roll: all candidates answer
	keptLines = 200
)

// screen is the terminal that watch draws on; nil when stdout is none.
func (a *app) screen() *os.File {
	if !terminal(a.stdout) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return a.stdout.(*os.File) // a terminal is one
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// liveView is what watch shows on a terminal: how things stand, redrawn as the
// lease runs, and below it the last events. It belongs to one goroutine.
type liveView struct {
	paper    *paper
	election string

	st     elector.Status
	err    error
	at     time.Time     // when that was so
	lease  time.Duration // the longest that was seen left of this leader's: the whole bar
	token  uint64        // of that leader
	events []elector.Event
	roll   rollCall // the last one
}

// askIn is when to ask again: a short lease would run out on the screen before
// its renewal is seen.
func askIn(st elector.Status) time.Duration {
	if st.Leader == nil {
		return askEvery
	}
	return min(askEvery, max(drawEvery, st.Leader.LeaseLeft/3))
}

// rollCall is who answered; denied: this Redis user may not ask.
type rollCall struct {
	all    []elector.CandidateStatus
	denied bool
}

type answer struct {
	st  elector.Status
	err error
}

// live shows the view until ctx ends.
func (a *app) live(ctx context.Context, f *os.File, el *elector.Election) error {
	v := &liveView{paper: newPaper(f), election: el.Name()}
	before, done := context.WithTimeout(ctx, askEvery/2)
	terms, _ := el.History(before, 20) // the view does without
	done()
	v.recall(terms)
	if _, err := io.WriteString(f, "\x1b[?1049h\x1b[?25l"); err != nil { // a screen of our own, without the cursor
		return err
	}
	defer func() { _, _ = io.WriteString(f, "\x1b[?25h\x1b[?1049l") }()
	ctx, cancel := context.WithCancel(ctx)
	from := startSources(ctx, el)
	defer func() {
		cancel()
		from.drain()
	}()
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	for {
		select {
		case ev, ok := <-from.events:
			if !ok {
				return nil
			}
			v.heard(ev)
		case got, ok := <-from.answers:
			if !ok {
				return nil
			}
			if v.asked(got, time.Now()) { // the roll is about the time before
				select {
				case from.changed <- struct{}{}:
				default:
				}
			}
		case called, ok := <-from.rolls:
			if !ok {
				return nil
			}
			v.roll = called
		case <-tick.C:
		}
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width < 1 || height < 1 {
			width, height = 80, 24
		}
		if _, err := io.WriteString(f, draw(v.render(time.Now(), width, height))); err != nil {
			return err // the terminal is gone
		}
	}
}

// sources are where the view learns what it shows: each channel is fed by a goroutine
// that closes it when the context ends.
type sources struct {
	events  chan elector.Event
	answers chan answer
	rolls   chan rollCall
	changed chan struct{} // the roll is called before its time
}

func startSources(ctx context.Context, el *elector.Election) *sources {
	s := &sources{make(chan elector.Event), make(chan answer), make(chan rollCall), make(chan struct{}, 1)}
	go func() {
		defer close(s.events)
		for ev := range el.Observe(ctx) {
			send(ctx, s.events, ev)
		}
	}()
	go func() {
		defer close(s.answers)
		for ctx.Err() == nil {
			st, err := el.Status(ctx)
			send(ctx, s.answers, answer{st, err})
			pauseFor(ctx, askIn(st))
		}
	}()
	go func() {
		defer close(s.rolls)
		for ctx.Err() == nil {
			all, err := el.Candidates(ctx) // what is wrong with Redis is shown already
			called := rollCall{all, errors.Is(err, elector.ErrDenied)}
			send(ctx, s.rolls, called)
			if called.denied { // each refusal disturbs the subscription to the events
				<-ctx.Done()
			}
			select {
			case <-time.After(callEvery):
			case <-s.changed:
			case <-ctx.Done():
			}
		}
	}()
	return s
}

func send[T any](ctx context.Context, to chan<- T, v T) {
	select {
	case to <- v:
	case <-ctx.Done():
	}
}

// drain waits until the last request of each source has ended.
func (s *sources) drain() {
	for range s.events {
	}
	for range s.rolls {
	}
	for range s.answers {
	}
}

// draw overwrites line by line: clearing the screen first would flicker.
func draw(lines []string) string {
	return "\x1b[H" + strings.Join(lines, "\x1b[K\r\n") + "\x1b[K\x1b[J"
}

// recall fills the events with those from before.
func (v *liveView) recall(terms []elector.TermRecord) {
	for _, t := range slices.Backward(terms) {
		ev := elector.Event{
			Version: 1, Kind: elector.EventElected, Election: v.election, Candidate: t.Candidate, Advertise: t.Advertise, Token: t.Token, Time: t.From,
		}
		if !t.From.IsZero() {
			v.events = append(v.events, ev)
		}
		if !t.Until.IsZero() {
			ev.Kind, ev.Advertise, ev.Time, ev.Reason, ev.Detail = elector.EventReleased, "", t.Until, t.Reason, t.Detail
			v.events = append(v.events, ev)
		}
	}
}

func (v *liveView) heard(ev elector.Event) {
	known := slices.ContainsFunc(v.events, func(old elector.Event) bool {
		return old.Kind == ev.Kind && old.Token == ev.Token && ev.Kind == elector.EventElected
	})
	if known || ev.Kind == elector.EventVacant && v.at.IsZero() {
		return // the first one tells how things stand, and the view does that
	}
	v.events = append(v.events, ev)
	if len(v.events) > keptLines {
		v.events = slices.Clone(v.events[len(v.events)-keptLines:])
	}
}

// asked takes how things stand; it tells whether another one leads than before.
func (v *liveView) asked(got answer, now time.Time) (changed bool) {
	v.st, v.err, v.at = got.st, got.err, now
	if l := got.st.Leader; l != nil {
		changed = l.Token != v.token
		if l.Token != v.token {
			v.token, v.lease = l.Token, 0
		}
		v.lease = max(v.lease, l.LeaseLeft)
	}
	return changed
}

// render draws lines of at most the width.
func (v *liveView) render(now time.Time, width, height int) []string {
	p, lines := v.paper, []string(nil)
	add := func(paint func(string) string, format string, args ...any) {
		s := cutEnd(fmt.Sprintf(format, args...), width)
		if paint != nil {
			s = paint(s)
		}
		lines = append(lines, s)
	}
	red := func(s string) string { return p.paint("31", s) }
	green := func(s string) string { return p.paint("32", s) }
	add(p.bold, "%s%*s", v.election, max(1, width-len([]rune(v.election))), now.Format(time.TimeOnly))
	lines = append(lines, "")
	l := v.st.Leader
	switch {
	case v.at.IsZero():
		add(p.dim, "leader    asking Redis")
	case errors.Is(v.err, elector.ErrDenied):
		add(red, "leader    unknown: the Redis user lacks the right to read")
	case errors.Is(v.err, elector.ErrUnreachable):
		add(red, "leader    unknown: no majority of the Redis nodes answers")
	case l == nil:
		add(red, "leader    %s", nobody(v.st))
	default:
		add(green, "leader    %s", l.Candidate)
		if l.Advertise != "" {
			add(nil, "address   %s", l.Advertise)
		}
		add(nil, "token     %d", l.Token)
		if !l.Since.IsZero() {
			add(nil, "since     %s (%s)", l.Since.Local().Format(time.DateTime), ago(l.Since))
		}
		left := max(0, l.LeaseLeft-now.Sub(v.at))
		add(nil, "lease     %s %s", bar(left, v.lease, min(40, max(4, width-22))), brief(left))
	}
	if v.st.Paused {
		add(red, "paused    %s: no new leader will be elected (%s)", pausedFor(v.st.PauseLeft, now.Sub(v.at), brief), v.st.Pause)
	}
	if v.st.Blocked != "" {
		add(red, "BLOCKED   %s: no candidate can lead until it is gone (mandate doctor %s)", v.st.Blocked, v.election)
	}
	for _, n := range v.st.Nodes {
		switch {
		case !n.Reachable:
			add(red, "node      %-24s %s: %s", cut(n.Node, nodeWidth), nodeState(n), strings.TrimPrefix(n.Error, n.Node+": "))
		case n.Foreign != "":
			add(red, "node      %-24s %s", cut(n.Node, nodeWidth), foreignLock(n))
		case n.Abstains > 0:
			add(nil, "node      %-24s does not vote for another %s", cut(n.Node, nodeWidth), brief(n.Abstains))
		default:
			add(p.dim, "node      %-24s ok, %s", cut(n.Node, nodeWidth), rough(n.RTT))
		}
	}
	lines = append(lines, v.candidates(width)...)
	lines = append(lines, "")
	const footer = 1
	room := max(0, height-len(lines)-footer)
	for _, ev := range v.events[max(0, len(v.events)-room):] {
		add(nil, "%s", eventLine(ev, false))
	}
	for len(lines) < height-footer {
		lines = append(lines, "")
	}
	if len(lines) > height-footer {
		lines = lines[:max(0, height-footer)]
	}
	add(p.dim, "Ctrl-C ends")
	return lines
}

// bar shows a share of a whole.
func bar(part, whole time.Duration, width int) string {
	full := 0
	if whole > 0 {
		full = int((int64(width)*int64(part) + int64(whole)/2) / int64(whole))
	}
	full = min(max(0, full), width)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// cutEnd shortens to a width.
func cutEnd(s string, width int) string {
	r := []rune(printable(s))
	if len(r) <= width {
		return string(r)
	}
	return string(r[:max(0, width-1)]) + "…"
}
