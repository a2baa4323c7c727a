package output

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

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
	Width  int  // of the terminal; 0: not a terminal, so names stay whole for scripts
	Colors bool // the terminal shows colors

	mu sync.Mutex // guards writes to W
}

const (
	// proseWidth is where texts are wrapped when the output is not a terminal.
	proseWidth = 80
	// minWidth is the narrowest terminal that tables are laid out for.
	minWidth = 40
)

// New makes a printer. If w is a terminal, the printer has its width, and colors unless NO_COLOR or
// TERM=dumb forbid them.
func New(w io.Writer) *Printer {
	p := &Printer{W: w}
	if f := Terminal(w); f != nil {
		p.Width = width(f)
		p.Colors = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return p
}

// Terminal returns w as a file if it is a terminal, otherwise nil.
func Terminal(w io.Writer) *os.File {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// width returns the width of a terminal in cells, or 80 if it is unknown.
func width(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 1 {
		return 80
	}
	return width
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
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.W, format+"\n", args...)
}

// Prose wraps a line that is too long for the terminal. The further lines are indented like the
// text of the first one, behind its list mark. If the output is not a terminal the line stays
// whole, for scripts.
func (p *Printer) Prose(line string) []string {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	if p.Width == 0 || text == "" || Cells(line) <= p.Width {
		return []string{line}
	}
	hanging := indent
	if strings.HasPrefix(text, "- ") {
		hanging += len("- ")
	}
	lines := p.Wrap(text, hanging)
	lines[0] = strings.Repeat(" ", indent) + lines[0]
	return lines
}

// Wrap breaks a text into lines that fit, and indents all but the first one. The first line begins
// after a text of the caller's that is as wide as the indent.
func (p *Printer) Wrap(text string, indent int) []string {
	width := proseWidth
	if p.Width > 0 {
		width = max(minWidth, p.Width)
	}
	var lines []string
	col := 0
	for word := range strings.FieldsSeq(Printable(text)) {
		n := Cells(word)
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
