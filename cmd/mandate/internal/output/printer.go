package output

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Color is how a terminal paints a text; the empty one leaves it as it is.
type Color string

// The colours, by their codes.
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

// Printer writes for people. Its methods are safe for concurrent use; the fields are not to be
// changed while it is in use.
type Printer struct {
	W      io.Writer
	Width  int  // of the terminal; 0: it is none, so names stay whole for scripts
	Colors bool // a terminal that paints
	Clip   bool // what is too long even so is cut, for a screen that is drawn over

	mu sync.Mutex // of W
}

const (
	// proseWidth is where texts are wrapped when the output is no terminal.
	proseWidth = 80
	// minWidth is the narrowest terminal that tables are made for.
	minWidth = 40
)

// New makes the printer of an output: a terminal is queried for its width, and painted unless
// NO_COLOR or TERM=dumb forbid it.
func New(w io.Writer) *Printer {
	p := &Printer{W: w}
	if f := Terminal(w); f != nil {
		p.Width, _ = Size(f)
		p.Colors = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return p
}

// Terminal is the terminal behind an output; nil: it is none.
func Terminal(w io.Writer) *os.File {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// Size is that of a terminal in cells, and 80 x 24 for one that doesn't reveal it.
func Size(f *os.File) (width, height int) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 1 || height < 1 {
		return 80, 24
	}
	return width, height
}

// Paint colours a text where that is wanted.
func (p *Printer) Paint(c Color, s string) string {
	if !p.Colors || c == Plain {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// Lines writes lines at once.
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

// Prose is a line as a terminal shows it: broken between words where it is too long, with the later
// lines as far in as the first one and its list mark. Elsewhere it stays whole, as scripts take it.
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

// Wrap breaks a text into lines that fit, the later ones indented; the first one begins
// after what stands at its left, which is as wide as the indent.
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
