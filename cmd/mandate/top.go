package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// topEvery is how long top waits between two readings of all elections.
const topEvery = 2 * time.Second

func (a *app) topCommand() *cobra.Command {
	var by string
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show all elections, those with problems first, and act on them",
		Long: `Show all elections of the prefix on the terminal, those with problems first,
until q or Ctrl-C. It reads them every 2 s.

Keys
  up, down  choose an election; what is wrong with it stands below the list
  /         show only names that contain a text; Esc shows all
  r         make its leader step down, after a question
  p         pause or resume it, after a question
  q         quit

mandate watch NAME shows one election closely; mandate ls is for scripts.

Exit codes: 0 ended by a key or a signal, 1 no terminal, 2 invalid flags.`,
		Example: `  mandate top --context prod`,
		Args:    noNames(": it shows all elections; mandate watch NAME shows one"),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			by = a.operator(by)
			if output.Terminal(a.stderr) != nil {
				a.log = slog.New(slog.DiscardHandler) // lines would run through the view
			}
			return a.openQuorum(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			screen := a.screen()
			if screen == nil || output.Terminal(os.Stdin) == nil {
				return errors.New("this is no terminal: use mandate ls")
			}
			// A second signal must not end us before the terminal is as it was.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			return a.runTop(ctx, screen, by)
		},
	}
	a.byFlag(cmd, &by)
	return cmd
}

// runTop draws until ctx or a key ends it, and leaves the terminal as it was.
func (a *app) runTop(ctx context.Context, screen *os.File, by string) error {
	was, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(os.Stdin.Fd()), was) }()
	defer func() { _, _ = io.WriteString(screen, "\x1b[?25h\x1b[?1049l") }()
	if _, err := io.WriteString(screen, "\x1b[?1049h\x1b[?25l"); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v := &topView{title: strings.TrimSpace(strings.Join([]string{"mandate", a.prefix, a.where()}, "  "))}
	updates, keys := make(chan func()), make(chan []byte)
	send := func(update func()) {
		select {
		case updates <- update:
		case <-ctx.Done():
		}
	}
	go a.readTop(ctx, v, send)
	go readKeys(ctx, keys)
	p := output.New(screen)
	p.Clip = true
	tick := time.NewTicker(time.Second) // also for a terminal that has become wider
	defer tick.Stop()
	for {
		var height int
		p.Width, height = output.Size(screen)
		lines := strings.Join(v.render(p, time.Now(), height), "\x1b[K\r\n")
		if _, err := io.WriteString(screen, "\x1b[H"+lines+"\x1b[K\x1b[J"); err != nil {
			return err // the terminal is gone
		}
		select {
		case update := <-updates:
			update()
		case <-tick.C:
		case typed, ok := <-keys:
			order, quit := v.keys(typed)
			if quit || !ok {
				return nil
			}
			if order != nil {
				go func() {
					done := order(ctx, a.quorum, by)
					send(func() { v.message = done })
				}()
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// readTop reads all elections again and again.
func (a *app) readTop(ctx context.Context, v *topView, send func(func())) {
	for ; ctx.Err() == nil; sleep(ctx, topEvery) {
		names, err := a.quorum.Elections(ctx)
		var all []report
		if !errors.Is(err, elector.ErrUnreachable) {
			var serr error
			all, serr = reports(ctx, a.quorum, names)
			err = cmp.Or(serr, err)
		}
		send(func() { v.set(all, err) })
	}
}

// readKeys ends with the terminal; until then its read can't be ended, so nobody waits
// for it.
func readKeys(ctx context.Context, keys chan<- []byte) {
	for {
		b := make([]byte, 32)
		n, err := os.Stdin.Read(b)
		if err != nil {
			close(keys)
			return
		}
		select {
		case keys <- b[:n]:
		case <-ctx.Done():
			return
		}
	}
}

// topOrder does what an operator has confirmed, and returns what came of it.
type topOrder func(ctx context.Context, q *elector.Quorum, by string) string

// topView is the state of the screen. It belongs to one goroutine.
type topView struct {
	title   string
	all     []report
	read    bool
	err     error
	chosen  string // the name of the selected election
	filter  string
	typing  bool     // of the filter
	ask     string   // a question that waits for its answer
	order   topOrder // what it is about
	message string
}

// set takes what was read, problems first.
func (v *topView) set(all []report, err error) {
	v.err, v.read = err, true
	if len(all) == 0 && err != nil {
		return // what was known stays, with the error
	}
	slices.SortStableFunc(all, func(a, b report) int {
		return cmp.Or(cmp.Compare(a.urgency(), b.urgency()), cmp.Compare(a.Election, b.Election))
	})
	v.all = all
}

// urgency orders a list: the smallest number is what needs an operator first.
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

// keys takes what was typed, and returns what to do.
func (v *topView) keys(typed []byte) (order topOrder, quit bool) {
	shown, at := v.shown()
	move := func(to int) {
		if len(shown) > 0 {
			v.chosen = shown[min(max(0, to), len(shown)-1)].Election
		}
	}
	switch key := string(typed); {
	case key == "\x03": // Ctrl-C
		return nil, true
	case v.ask != "":
		order = v.order
		v.ask, v.order = "", nil
		if key != "y" && key != "Y" {
			v.message = "nothing was done"
			return nil, false
		}
		v.message = "working"
		return order, false
	case key == "\x1b":
		v.filter, v.typing = "", false
	case v.typing:
		v.typeFilter(key)
	case key == "q":
		return nil, true
	case key == "/":
		v.typing, v.message = true, ""
	case key == "\x1b[A", key == "k":
		move(at - 1)
	case key == "\x1b[B", key == "j":
		move(at + 1)
	case len(shown) == 0:
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
		v.message = r.Election + " has no leader"
		return
	}
	if r.rollErr != nil {
		v.message = "the candidates are not known: whether another one could lead can't be checked"
		return
	}
	question, err := planStepDown(r.Election, *r.Leader, r.roll)
	if err != nil {
		v.message = err.Error()
		return
	}
	name := r.Election
	v.ask, v.order = question, func(ctx context.Context, q *elector.Quorum, by string) string {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		el, err := q.Election(name)
		if err != nil {
			return elector.Problem(err)
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
	v.order = func(ctx context.Context, q *elector.Quorum, by string) string {
		el, err := q.Election(name)
		switch {
		case err != nil:
		case paused:
			err = el.Resume(ctx)
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

// render makes the lines of a screen of that height.
func (v *topView) render(p *output.Printer, now time.Time, height int) []string {
	shown, at := v.shown()
	clock := now.Local().Format("15:04:05 MST")
	title := output.Cut(fmt.Sprintf("%s  %d elections", v.title, len(v.all)), max(0, p.Width-len(clock)-2))
	gap := strings.Repeat(" ", max(1, p.Width-output.Cells(title)-len(clock)))
	lines := []string{p.Paint(output.Bold, output.Cut(title+gap+clock, p.Width)), ""}
	below := v.below(p, shown, at)
	room := max(1, height-len(lines)-len(below)-1) // and the titles of the table
	switch {
	case !v.read:
		lines = append(lines, "reading from Redis")
	case len(shown) == 0:
		lines = append(lines, "no elections")
	default:
		from := max(0, at-room+1)
		narrow := &output.Printer{W: p.W, Width: max(1, p.Width-2), Colors: p.Colors, Clip: true}
		for i, line := range narrow.Table(electionTable(shown[from:min(len(shown), from+room)], false)) {
			mark := "  "
			if i == at-from+1 {
				mark = "> "
			}
			lines = append(lines, mark+line)
		}
	}
	for len(lines) < height-len(below) {
		lines = append(lines, "")
	}
	return append(lines[:max(0, height-len(below))], below...)
}

// below is what stands under the list.
func (v *topView) below(p *output.Printer, shown []report, at int) []string {
	why, next := "", ""
	if len(shown) > 0 {
		why, next = shown[at].problem()
	}
	lines := []string{"", p.Paint(output.Red, output.Cut(why, p.Width)), p.Paint(output.Yellow, output.Cut(next, p.Width)), output.Cut(v.message, p.Width)}
	if v.err != nil {
		lines[3] = p.Paint(output.Red, output.Cut(elector.Problem(v.err), p.Width))
	}
	foot, color := "up down choose   / filter   r resign   p pause or resume   q quit", output.Dim
	switch {
	case v.ask != "":
		foot, color = v.ask+" [y/N]", output.Bold
	case v.typing || v.filter != "":
		foot = "/" + v.filter + "   Enter keeps it, Esc shows all"
	}
	return append(lines, p.Paint(color, output.Cut(foot, p.Width)))
}
