package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// paper is what tables and the demo are written on: with colours on a terminal, plain elsewhere.
type paper struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	colour   bool
}

func newPaper(w io.Writer) *paper {
	f, ok := w.(*os.File)
	terminal := ok && term.IsTerminal(int(f.Fd()))
	return &paper{w: w, terminal: terminal, colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// column makes a column of names. On a terminal what is too long for it is cut;
// elsewhere the column widens instead: a script needs names that exist.
func (p *paper) column(width int, names []string) func(name string) string {
	if p.terminal {
		return func(name string) string { return fmt.Sprintf("%-*s", width, cut(name, width)) }
	}
	for _, name := range names {
		width = max(width, utf8.RuneCountInString(printable(name)))
	}
	return func(name string) string { return fmt.Sprintf("%-*s", width, printable(name)) }
}

func (p *paper) paint(code, s string) string {
	if !p.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p *paper) bold(s string) string { return p.paint("1", s) }
func (p *paper) dim(s string) string  { return p.paint("2", s) }

func (p *paper) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// each is what a column is made of.
func each[T any](rows []T, name func(T) string) []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = name(r)
	}
	return names
}

// row is a step in the summary.
type row struct {
	title, what, measured string
	ok                    bool
}

func (p *paper) summary(rows []row, took time.Duration) {
	p.line("\n%s", p.bold("Summary"))
	p.line("  %s", p.dim(fmt.Sprintf("%-2s %-12s %-6s %-32s %s", "", "STEP", "", "WHAT HAPPENED", "MEASURED")))
	for i, r := range rows {
		mark := p.paint("32", fmt.Sprintf("%-6s", "ok"))
		if !r.ok {
			mark = p.paint("31", fmt.Sprintf("%-6s", "FAILED"))
		}
		p.line("  %-2d %-12s %s %s", i+1, r.title, mark, strings.TrimRight(fmt.Sprintf("%-32s %s", r.what, r.measured), " "))
	}
	p.line("\nIt took %.1f s. Now with a real Redis: mandate run --election NAME -- COMMAND", took.Seconds())
}

// say writes a line about a candidate, note one about something else.
func (s *stage) say(a *actor, words string) {
	gap := " "
	if strings.HasPrefix(words, "'") {
		gap = ""
	}
	s.paper.line("%s  %s%s%s", s.clock(), s.paper.paint(a.colour, a.name), gap, words)
}

func (s *stage) note(format string, args ...any) {
	s.paper.line("%s  %s", s.clock(), s.paper.dim(fmt.Sprintf(format, args...)))
}

func (s *stage) clock() string {
	return s.paper.dim(fmt.Sprintf("%9.3f s", time.Since(s.began).Seconds()))
}
