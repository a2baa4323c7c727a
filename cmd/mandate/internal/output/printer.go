// Package output formats what the commands print: tables, JSON, shortened names, wrapped texts and
// durations. Everything that it prints is safe for a terminal: names from Redis may have been
// chosen by anyone who may write there.
package output

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Color is the SGR code of a color; the empty one leaves a text as it is.
type Color string

// These are the colors.
const (
	Plain  Color = ""
	Bold   Color = "1"
	Dim    Color = "2"
	Red    Color = "31"
	Green  Color = "32"
	Yellow Color = "33"
	Purple Color = "35"
	Cyan   Color = "36"
)

// Printer prints for people. Its methods are safe for concurrent use; its fields must not be
// changed while it is in use.
type Printer struct {
	W      io.Writer
	Width  int  // of the terminal; 0: not a terminal
	Colors bool // the terminal shows colors

	mu sync.Mutex // guards writes to W
}

const (
	// proseWidth is the width of a terminal that does not tell its own, and where texts are wrapped
	// when the output is not a terminal.
	proseWidth = 80
	// minWidth is the narrowest terminal that texts are wrapped for.
	minWidth = 40
)

// New makes a printer. If w is a terminal, the printer has its width, and colors unless NO_COLOR or
// TERM=dumb forbid them.
func New(w io.Writer) *Printer {
	p := &Printer{W: w}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return p
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 1 {
		width = proseWidth
	}
	p.Width = max(minWidth, width)
	p.Colors = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return p
}

// Paint colors a text if colors are enabled.
func (p *Printer) Paint(c Color, s string) string {
	if !p.Colors || c == Plain {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// Lines writes lines in one call.
func (p *Printer) Lines(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := io.WriteString(p.W, strings.Join(lines, "\n")+"\n")
	return err
}

// Println writes a line.
func (p *Printer) Println(format string, args ...any) {
	_ = p.Lines([]string{fmt.Sprintf(format, args...)}) // there is no other place to report a failure
}

// Prose wraps a line that is too long for the terminal. The further lines are indented like the
// text of the first one, behind its list mark. If the output is not a terminal the line stays
// whole, for scripts.
func (p *Printer) Prose(line string) []string {
	if p.Width == 0 || cells(line) <= p.Width {
		return []string{line}
	}
	text := strings.TrimLeft(line, " -")
	mark := line[:len(line)-len(text)]
	lines := p.Wrap(text, len(mark))
	lines[0] = mark + lines[0]
	return lines
}

// Wrap breaks a text into lines that fit, and indents all but the first one. The first line begins
// after a text of the caller's that is as wide as the indent.
func (p *Printer) Wrap(text string, indent int) (lines []string) {
	width, col := cmp.Or(p.Width, proseWidth), 0
	for word := range strings.FieldsSeq(Printable(text)) {
		n := cells(word)
		switch {
		case col == 0:
			lines, col = append(lines, word), indent+n
		case col+1+n > width:
			lines, col = append(lines, strings.Repeat(" ", indent)+word), indent+n
		default:
			lines[len(lines)-1] += " " + word
			col += 1 + n
		}
	}
	return lines
}

// Field is a labelled text.
type Field struct {
	Name, Text string
	Color      Color
}

// Fields are labelled texts, one below the other.
type Fields []Field

// Add adds a field, unless it has no text.
func (f *Fields) Add(name, text string, c Color) {
	if text != "" {
		*f = append(*f, Field{name, text, c})
	}
}

// fieldIndent is the column in which the text of a Field begins.
const fieldIndent = 12

// Fields formats fields, one below the other, without those that have no text. On a terminal long ones are wrapped; elsewhere each
// is one line, for scripts that search for one.
func (p *Printer) Fields(fields Fields) (lines []string) {
	for _, f := range fields {
		if f.Text == "" {
			continue
		}
		texts := []string{strings.TrimSpace(Printable(f.Text))}
		if p.Width > 0 {
			texts = p.Wrap(f.Text, fieldIndent)
		}
		for i, text := range texts {
			if i == 0 {
				text = fmt.Sprintf("%-*s%s", fieldIndent, f.Name, text)
			}
			lines = append(lines, p.Paint(f.Color, text))
		}
	}
	return lines
}

// cells returns how many cells of a terminal a text takes. Characters of two cells, as in East Asian
// names, count as one.
func cells(s string) int { return utf8.RuneCountInString(s) }

// Printable replaces characters that could move the cursor or change how the rest of a line is
// displayed.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

// CutMiddle shortens a text in the middle to at most so many cells.
func CutMiddle(s string, most int) string {
	const ellipsis = ".."
	runes := []rune(Printable(s))
	if len(runes) <= most {
		return string(runes)
	}
	keep := max(0, most-len(ellipsis))
	return string(runes[:keep-keep/2]) + ellipsis + string(runes[len(runes)-keep/2:])
}

// Brief formats a duration in at most seven characters.
func Brief(d time.Duration) string {
	hours, minutes, seconds := int(d.Abs().Hours()), int(d.Abs().Minutes())%60, int(d.Abs().Seconds())%60
	sign := ""
	if d < 0 {
		sign = "-"
	}
	switch abs := d.Abs(); {
	case abs < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case abs < time.Second:
		return d.Round(time.Millisecond).String()
	case abs < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case abs < time.Hour:
		return fmt.Sprintf("%s%dm%02ds", sign, minutes, seconds)
	case abs < 48*time.Hour:
		return fmt.Sprintf("%s%dh%02dm", sign, hours, minutes)
	default:
		return fmt.Sprintf("%s%dd%02dh", sign, hours/24, hours%24)
	}
}

// Ago formats how long ago t was; empty for the zero time.
func Ago(t time.Time) string {
	switch d := time.Since(t); {
	case t.IsZero():
		return ""
	case d < -time.Second:
		return "by a clock ahead of ours"
	default:
		return Brief(max(time.Second, d.Truncate(time.Second))) + " ago"
	}
}
