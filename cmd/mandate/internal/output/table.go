package output

import (
	"slices"
	"strings"
)

// Table is rows of cells below titles. A column is as wide as its widest cell. On a terminal
// that is too narrow the columns of names give way, the widest first, and their cells are
// shortened so that different names stay different. A column without any cell is left out.
type Table struct {
	columns []Column
	rows    []row
}

// Column is one column of a Table.
type Column struct {
	Title string
	Name  bool // its cells are names, which may be shortened
	Min   int  // of a Name: to no fewer cells than these
	Right bool // its cells are numbers
	Rest  bool // the last one: texts that names need not make room for; clipped on a screen, else below the row if there is no room
}

type row struct {
	cells []string
	color Color
	notes []note
}

type note struct {
	text  string
	color Color
}

const (
	columnGap  = 2
	noteIndent = 4
	minName    = 8  // cells of a name, however narrow the terminal
	minRest    = 30 // cells of a Rest
)

// NewTable makes an empty table.
func NewTable(columns ...Column) *Table { return &Table{columns: columns} }

// Row adds a row, a cell for each column.
func (t *Table) Row(c Color, cells ...string) {
	clean := make([]string, len(t.columns))
	for i, cell := range cells {
		clean[i] = strings.TrimSpace(Printable(cell))
	}
	t.rows = append(t.rows, row{cells: clean, color: c})
}

// Note adds a text below the last row; an empty one adds nothing.
func (t *Table) Note(c Color, text string) {
	last := &t.rows[len(t.rows)-1]
	last.notes = append(last.notes, note{text, c})
}

// Len is how many rows there are.
func (t *Table) Len() int { return len(t.rows) }

// Table lays a table out in lines.
func (p *Printer) Table(t *Table) []string {
	widths := t.widths(p.Width)
	if p.Width > 0 && !p.Clip && t.total(widths) > max(p.Width, minWidth) {
		t = t.restBelow()
		widths = t.widths(p.Width)
	}
	cells := t.fit(widths)
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.Title
	}
	lines := []string{p.Paint(Dim, p.clip(t.line(widths, titles)))}
	for i, r := range t.rows {
		lines = append(lines, p.Paint(r.color, p.clip(t.line(widths, cells[i]))))
		for _, n := range r.notes {
			lines = append(lines, p.note(n)...)
		}
	}
	return lines
}

func (p *Printer) note(n note) []string {
	indent := strings.Repeat(" ", noteIndent)
	texts := p.Wrap(n.text, noteIndent)
	if p.Clip && len(texts) > 1 {
		texts = []string{strings.TrimSpace(Printable(n.text))}
	}
	var lines []string
	for i, text := range texts {
		if i == 0 {
			text = indent + text
		}
		lines = append(lines, p.Paint(n.color, p.clip(text)))
	}
	return lines
}

// widths are those of the columns, 0 for one without cells.
func (t *Table) widths(room int) []int {
	widths := make([]int, len(t.columns))
	total := 0
	for i, c := range t.columns {
		for _, r := range t.rows {
			widths[i] = max(widths[i], Cells(r.cells[i]))
		}
		if widths[i] > 0 {
			widths[i] = max(widths[i], Cells(c.Title))
			total += columnGap
			if c.Rest {
				total += min(widths[i], minRest)
			} else {
				total += widths[i]
			}
		}
	}
	if room == 0 {
		return widths
	}
	for total -= columnGap; total > max(room, minWidth); total-- {
		widest := -1
		for i, c := range t.columns {
			if c.Name && widths[i] > max(minName, c.Min, Cells(c.Title)) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// total is the width of a line.
func (t *Table) total(widths []int) int {
	total := -columnGap
	for _, w := range widths {
		if w > 0 {
			total += columnGap + w
		}
	}
	return total
}

// restBelow is the table with the texts of a Rest as notes: the terminal would break its lines
// within a word.
func (t *Table) restBelow() *Table {
	below := &Table{columns: t.columns}
	for _, r := range t.rows {
		r.cells = slices.Clone(r.cells)
		for i, c := range t.columns {
			if c.Rest && r.cells[i] != "" {
				text := r.cells[i]
				if !strings.Contains(text, " ") { // a list of numbers, which could be broken nowhere
					text = strings.ReplaceAll(text, ",", ", ")
				}
				r.notes = append([]note{{text, r.color}}, r.notes...)
				r.cells[i] = ""
			}
		}
		below.rows = append(below.rows, r)
	}
	return below
}

// fit shortens the names that are wider than their column.
func (t *Table) fit(widths []int) [][]string {
	all := make([][]string, len(t.rows))
	for i, r := range t.rows {
		all[i] = append([]string(nil), r.cells...)
	}
	for i, c := range t.columns {
		if !c.Name {
			continue
		}
		names := make([]string, len(t.rows))
		for j := range t.rows {
			names[j] = t.rows[j].cells[i]
		}
		for j, name := range Shorten(names, widths[i]) {
			all[j][i] = name
		}
	}
	return all
}

func (t *Table) line(widths []int, cells []string) string {
	var b strings.Builder
	for i, c := range t.columns {
		if widths[i] == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(strings.Repeat(" ", columnGap))
		}
		fill := strings.Repeat(" ", max(0, widths[i]-Cells(cells[i])))
		if c.Right {
			b.WriteString(fill + cells[i])
		} else {
			b.WriteString(cells[i] + fill)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Field is a fact and its name.
type Field struct {
	Name, Text string
	Color      Color
}

// FieldIndent is where the text of a Field begins.
const FieldIndent = 12

// Fields lays facts out, one below the other. On a terminal a long one is wrapped; elsewhere
// each stands on its line, for scripts that look for one.
func (p *Printer) Fields(fields []Field) []string {
	var lines []string
	for _, f := range fields {
		texts := []string{strings.TrimSpace(Printable(f.Text))}
		if p.Width > 0 {
			texts = p.Wrap(f.Text, FieldIndent)
		}
		for i, text := range texts {
			if i == 0 {
				text = f.Name + strings.Repeat(" ", max(1, FieldIndent-Cells(f.Name))) + text
			}
			lines = append(lines, p.Paint(f.Color, p.clip(text)))
		}
	}
	return lines
}

// clip keeps a line from being broken by the terminal, where that would shift others.
func (p *Printer) clip(line string) string {
	if p.Clip {
		return Cut(line, p.Width)
	}
	return line
}
