package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

const (
	drawEvery  = 250 * time.Millisecond
	readEvery  = time.Second     // of the status, one script per node
	rollEvery  = 5 * time.Second // of the roll call, which all candidates answer
	maxEvents  = 200
	maxInRoll  = 8 // candidates shown, which leaves room for the events
	footerRows = 1
)

// liveView is what watch shows on a terminal: the fields and tables of status and candidates,
// redrawn as the lease runs, and the latest events below. Only the goroutine of watchLive accesses
// it; other goroutines send that goroutine updates.
type liveView struct {
	election string
	where    string // the context; may be empty
	next     nextFlags

	st    elector.Status
	err   error
	at    time.Time     // when st was read
	lease time.Duration // the longest remaining lease seen of this leader, which is the full bar
	token uint64        // of that leader

	roll       []elector.CandidateStatus
	rollDenied bool // this Redis user may not call the roll

	events []elector.Event
}

// watchLive draws the view until ctx ends.
func watchLive(ctx context.Context, screen *os.File, el *elector.Election, where string, next nextFlags) error {
	v := &liveView{election: el.Name(), where: where, next: next}
	before, done := context.WithTimeout(ctx, readEvery/2)
	terms, _ := el.History(before, 20) // without them the view begins empty
	done()
	v.addHistory(terms)
	if _, err := io.WriteString(screen, "\x1b[?1049h\x1b[?25l"); err != nil { // the alternate screen, without the cursor
		return err
	}
	defer func() { _, _ = io.WriteString(screen, "\x1b[?25h\x1b[?1049l") }()
	ctx, cancel := context.WithCancel(ctx)
	updates, ended := startUpdates(ctx, el)
	defer ended()
	defer cancel()
	p := output.New(screen)
	p.Clip = true
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	for {
		select {
		case update := <-updates:
			update(v)
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		var height int
		p.Width, height = output.Size(screen)
		// Lines are overwritten one by one: clearing the screen first would flicker.
		lines := strings.Join(v.render(p, time.Now(), height), "\x1b[K\r\n")
		if _, err := io.WriteString(screen, "\x1b[H"+lines+"\x1b[K\x1b[J"); err != nil {
			return err // the terminal is gone
		}
	}
}

// startUpdates starts the goroutines that read the election. The returned function waits for their
// last requests, after ctx has ended.
func startUpdates(ctx context.Context, el *elector.Election) (<-chan func(*liveView), func()) {
	updates := make(chan func(*liveView))
	send := func(update func(*liveView)) {
		select {
		case updates <- update:
		case <-ctx.Done():
		}
	}
	changed := make(chan struct{}, 1) // the leader has changed: call the roll now
	var wg sync.WaitGroup
	wg.Go(func() {
		for ev := range el.Observe(ctx) {
			send(func(v *liveView) { v.addEvent(ev) })
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			st, err := el.Status(ctx)
			send(func(v *liveView) {
				if v.setStatus(st, err, time.Now()) {
					select {
					case changed <- struct{}{}:
					default:
					}
				}
			})
			sleep(ctx, nextRead(st))
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			all, err := el.Candidates(ctx) // other errors show in the status
			denied := errors.Is(err, elector.ErrDenied)
			send(func(v *liveView) { v.roll, v.rollDenied = all, denied })
			if denied { // each refusal interrupts the subscription to the events
				return
			}
			select {
			case <-time.After(rollEvery):
			case <-changed:
			case <-ctx.Done():
			}
		}
	})
	return updates, wg.Wait
}

// nextRead returns when to read the status again: often enough that a short lease does not seem to
// run out before its renewal is seen.
func nextRead(st elector.Status) time.Duration {
	if st.Leader == nil {
		return readEvery
	}
	return min(readEvery, max(drawEvery, st.Leader.LeaseLeft/3))
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// addHistory fills the events with those of past terms.
func (v *liveView) addHistory(terms []elector.TermRecord) {
	for _, t := range slices.Backward(terms) {
		if !t.From.IsZero() {
			v.addEvent(elector.Event{Kind: elector.EventElected, Candidate: t.Candidate, Token: t.Token, Time: t.From})
		}
		if !t.Until.IsZero() {
			v.addEvent(elector.Event{Kind: elector.EventReleased, Candidate: t.Candidate, Token: t.Token, Time: t.Until, Reason: t.Reason, Detail: t.Detail})
		}
	}
}

func (v *liveView) addEvent(ev elector.Event) {
	known := slices.ContainsFunc(v.events, func(old elector.Event) bool {
		return old.Kind == ev.Kind && old.Token == ev.Token && ev.Kind == elector.EventElected
	})
	if known || ev.Kind == elector.EventVacant && v.at.IsZero() {
		return // the first event is the current state, which the view shows already
	}
	v.events = append(v.events, ev)
	if len(v.events) > maxEvents {
		v.events = slices.Clone(v.events[len(v.events)-maxEvents:])
	}
}

// setStatus reports whether the leader has changed, so that the roll is out of date.
func (v *liveView) setStatus(st elector.Status, err error, now time.Time) (changed bool) {
	v.st, v.err, v.at = st, err, now
	if l := st.Leader; l != nil {
		if changed = l.Token != v.token; changed {
			v.token, v.lease = l.Token, 0
		}
		v.lease = max(v.lease, l.LeaseLeft)
	}
	return changed
}

func (v *liveView) render(p *output.Printer, now time.Time, height int) []string {
	clock := now.Local().Format("15:04:05 MST")
	name := output.Cut(strings.TrimSpace(v.election+"  "+v.where), max(0, p.Width-len(clock)-2))
	gap := strings.Repeat(" ", max(1, p.Width-output.Cells(name)-len(clock)))
	lines := []string{p.Paint(output.Bold, output.Cut(name+gap+clock, p.Width)), ""}
	lines = append(lines, p.Fields(v.fields(p, now))...)
	if len(v.st.Nodes) > 0 {
		lines = append(append(lines, ""), p.Table(nodeTable(v.st.Nodes, nil, doctor.Refusals(v.roll), false))...)
	}
	lines = append(lines, v.candidates(p)...)
	lines = append(lines, "")
	if room := height - len(lines) - footerRows; room > 1 && len(v.events) > 0 {
		t := output.NewTable(output.Column{Title: "TIME"}, output.Column{Title: "EVENT"}, output.Column{Title: "CANDIDATE", Name: true}, output.Column{Title: "WHAT", Rest: true})
		for _, ev := range v.events[max(0, len(v.events)-room+1):] {
			who, what := eventText(ev)
			t.Row(output.Plain, ev.Time.Local().Format(time.TimeOnly), string(ev.Kind), who, what)
		}
		lines = append(lines, p.Table(t)...)
	}
	for len(lines) < height-footerRows {
		lines = append(lines, "")
	}
	lines = lines[:max(0, height-footerRows)]
	return append(lines, p.Paint(output.Dim, output.Cut("Ctrl-C ends", p.Width)))
}

func (v *liveView) fields(p *output.Printer, now time.Time) []output.Field {
	leader := func(text string, c output.Color) []output.Field {
		return []output.Field{{Name: "leader", Text: text, Color: c}}
	}
	switch {
	case v.at.IsZero():
		return leader("reading from Redis", output.Dim)
	case errors.Is(v.err, elector.ErrDenied):
		return leader("unknown: the Redis user lacks the right to read", output.Red)
	case errors.Is(v.err, elector.ErrUnreachable):
		return leader("unknown: no majority of the Redis nodes answers", output.Red)
	}
	age := now.Sub(v.at)
	fields := statusFields(v.st, false, traceless(v.st) && len(v.roll) == 0)
	if l := v.st.Leader; l != nil {
		left := max(0, l.LeaseLeft-age)
		fields = append(fields, output.Field{Name: "lease", Text: bar(left, v.lease, min(40, max(4, p.Width-22))) + " " + output.Brief(left)})
	}
	return append(fields, conditionFields(v.st, age, v.next)...)
}

func (v *liveView) candidates(p *output.Printer) []string {
	if v.rollDenied {
		return []string{"", p.Paint(output.Dim, output.Cut("candidates are not shown: the Redis user may not call the roll (docs/redis.md)", p.Width))}
	}
	if len(v.roll) == 0 {
		return nil
	}
	shown := slices.Clone(v.roll[:min(len(v.roll), maxInRoll)])
	for i, c := range shown {
		// The roll may be older than the status: another candidate leads now, or none.
		if c.Role == elector.RoleLeading && (v.st.Leader == nil || v.st.Leader.Candidate != c.ID) {
			shown[i].Role = "led before"
		}
	}
	lines := append([]string{""}, p.Table(candidateTable(shown, v.st.Nodes, false, false))...)
	if len(shown) < len(v.roll) {
		more := fmt.Sprintf("%d candidates in all: %s", len(v.roll), v.next.command("candidates", v.election))
		lines = append(lines, p.Paint(output.Dim, output.Cut(more, p.Width)))
	}
	return lines
}

// bar draws how much of whole is left.
func bar(part, whole time.Duration, width int) string {
	full := 0
	if whole > 0 {
		full = int((int64(width)*int64(part) + int64(whole)/2) / int64(whole))
	}
	full = min(max(0, full), width)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}
