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
  r         make its leader step down, after confirmation
  p         pause or resume it, after confirmation
  q         quit

The shards of a group are one row, GROUP/*: mandate shards GROUP shows them.
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
				return errors.New("this is no terminal: use " + a.given.command("ls"))
			}
			// A second signal must not end the process before the terminal is restored.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			return a.runTop(ctx, screen, by)
		},
	}
	a.byFlag(cmd, &by)
	return cmd
}

// runTop draws until ctx or a key ends it, and restores the terminal.
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
	v := &topView{title: a.topTitle()}
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
	tick := time.NewTicker(time.Second) // also notices that the terminal has changed its size
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
			action, quit := v.keys(typed)
			if quit || !ok {
				return nil
			}
			if action != nil {
				go func() {
					done := action(ctx, a.quorum, by)
					send(func() { v.notify(done) })
				}()
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// topTitle names the prefix and the context if they are not the defaults.
func (a *app) topTitle() string {
	title := "mandate top"
	if a.prefix != defaultPrefix {
		title += "  prefix " + a.prefix
	}
	if where := a.contextName(); where != "" {
		title += "  context " + where
	}
	return title
}

func (a *app) readTop(ctx context.Context, v *topView, send func(func())) {
	for ; ctx.Err() == nil; sleep(ctx, topEvery) {
		used, idle, err := a.quorum.ElectionsByUse(ctx)
		var all []report
		if !errors.Is(err, elector.ErrUnreachable) {
			var serr error
			all, serr = readFolded(ctx, a.quorum, append(used, idle...)) // used first: time may be up before all are read
			sortByName(all)
			err = cmp.Or(serr, err)
			for i := range all {
				a.setOrigin(&all[i])
			}
		}
		send(func() { v.set(all, err) })
	}
}

// readKeys ends with the terminal. Its read can't be cancelled, so runTop does not wait for it.
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

// roomy is the height from which on the view has blank lines. On a smaller screen the list needs
// them.
const roomy = 16

func (v *topView) render(p *output.Printer, now time.Time, height int) []string {
	shown, at := v.shown()
	clock := now.Local().Format("15:04:05 MST")
	title := output.Cut(fmt.Sprintf("%s  %d elections", v.title, len(v.all)), max(0, p.Width-len(clock)-2))
	gap := strings.Repeat(" ", max(1, p.Width-output.Cells(title)-len(clock)))
	lines := []string{p.Paint(output.Bold, output.Cut(title+gap+clock, p.Width))}
	if height >= roomy {
		lines = append(lines, "")
	}
	below := v.below(p, shown, at, now, height)
	room := height - len(lines) - len(below) - 1 // without the titles of the table
	switch {
	case room < 1:
	case !v.read:
		lines = append(lines, "reading from Redis")
	case len(shown) == 0:
		lines = append(lines, "no elections")
	default:
		from := max(0, at-room+1)
		narrow := &output.Printer{W: p.W, Width: max(1, p.Width-2), Colors: p.Colors, Clip: true}
		for i, line := range narrow.Table(electionTable(shown[from:min(len(shown), from+room)], false, true)) {
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

// below returns the lines under the list. On a small screen it leaves at least two lines for the
// list.
func (v *topView) below(p *output.Printer, shown []report, at int, now time.Time, height int) []string {
	why, next := "", ""
	if len(shown) > 0 {
		why, next = shown[at].problem()
	}
	failed := ""
	if v.err != nil {
		failed = v.asOf() + elector.Problem(v.err)
	}
	foot, color := "up down choose   / filter   r resign   p pause or resume   q quit", output.Dim
	switch {
	case v.ask != "":
		answers := " [y/N]" // never clipped, however long the question is
		foot, color = output.Cut(v.ask, max(1, p.Width-len(answers)))+answers, output.Bold
	case v.typing || v.filter != "":
		foot = "/" + v.filter + "   Enter keeps it, Esc shows all"
	}
	lines := []string{p.Paint(color, output.Cut(foot, p.Width))} // from the most important line, which is the lowest one
	for _, line := range []struct {
		text  string
		color output.Color
	}{{v.messageAt(now), output.Plain}, {failed, output.Red}, {next, output.Yellow}, {why, output.Red}, {"", output.Plain}} {
		if height >= roomy || line.text != "" && len(lines) < height-3 {
			lines = append(lines, p.Paint(line.color, output.Cut(line.text, p.Width)))
		}
	}
	slices.Reverse(lines)
	return lines
}
