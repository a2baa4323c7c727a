package output

import (
	"slices"
	"strings"
)

// Table is a table of cells with column titles. A column is as wide as its widest cell. On a
// terminal that is too narrow the columns of names are narrowed, the widest first, and their cells
// are shortened so that different names stay different. An empty column is left out.
type Table struct {
	columns []Column
	rows    []row
}

// Column is one column of a Table.
type Column struct {
	Title string
	Name  bool // its cells are names, which may be shortened
	Right bool // right-aligned, for numbers
	Rest  bool // a text, which is printed below its row where the terminal is too narrow for it
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
	minName    = 12 // minimum cells of a name, however narrow the terminal is
)

// NewTable makes an empty table.
func NewTable(columns ...Column) *Table { return &Table{columns: columns} }

// Row adds a row with a cell for each column.
func (t *Table) Row(c Color, cells ...string) {
	clean := make([]string, len(t.columns))
	for i, cell := range cells {
		clean[i] = strings.TrimSpace(Printable(cell))
	}
	t.rows = append(t.rows, row{cells: clean, color: c})
}

// Note adds a text below the last row, unless it is empty.
func (t *Table) Note(c Color, text string) {
	last := &t.rows[len(t.rows)-1]
	last.notes = append(last.notes, note{text, c})
}

// Table formats a table as lines.
func (p *Printer) Table(t *Table) []string {
	widths := t.widths()
	if p.Width > 0 {
		room := max(p.Width, minWidth)
		if total(widths) > room {
			t = t.restBelow()
			widths = t.widths()
		}
		t.narrow(widths, room)
	}
	cells := t.fit(widths)
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.Title
	}
	lines := []string{p.Paint(Dim, t.line(widths, titles))}
	for i, r := range t.rows {
		lines = append(lines, p.Paint(r.color, t.line(widths, cells[i])))
		for _, n := range r.notes {
			lines = append(lines, p.note(n)...)
		}
	}
	return lines
}

func (p *Printer) note(n note) []string {
	indent := strings.Repeat(" ", noteIndent)
	texts := p.Wrap(n.text, noteIndent)
	var lines []string
	for i, text := range texts {
		if i == 0 {
			text = indent + text
		}
		lines = append(lines, p.Paint(n.color, text))
	}
	return lines
}

// widths returns the widths of the columns; 0: it is empty.
func (t *Table) widths() []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		for _, r := range t.rows {
			widths[i] = max(widths[i], Cells(r.cells[i]))
		}
		if widths[i] > 0 {
			widths[i] = max(widths[i], Cells(c.Title))
		}
	}
	return widths
}

// narrow takes from the widest columns of names what there is no room for.
func (t *Table) narrow(widths []int, room int) {
	for total(widths) > room {
		widest := -1
		for i, c := range t.columns {
			if c.Name && widths[i] > minName && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func total(widths []int) int {
	sum := -columnGap
	for _, w := range widths {
		if w > 0 {
			sum += columnGap + w
		}
	}
	return sum
}

// restBelow returns the table with the texts of its Rest column as notes below the rows, because
// the terminal would break them within a word.
func (t *Table) restBelow() *Table {
	below := &Table{columns: t.columns}
	for _, r := range t.rows {
		r.cells = slices.Clone(r.cells)
		for i, c := range t.columns {
			if c.Rest && r.cells[i] != "" {
				text := r.cells[i]
				if !strings.Contains(text, " ") { // a list of numbers, which could not be wrapped
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
		all[i] = slices.Clone(r.cells)
	}
	for i, c := range t.columns {
		if !c.Name {
			continue
		}
		names := make([]string, len(all))
		for j := range all {
			names[j] = all[j][i]
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

// Field is a labelled text.
type Field struct {
	Name, Text string
	Color      Color
}

// FieldIndent is the column in which the text of a Field begins.
const FieldIndent = 12

// Fields formats fields, one below the other. On a terminal long ones are wrapped; elsewhere each
// is one line, for scripts that search for one.
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
			lines = append(lines, p.Paint(f.Color, text))
		}
	}
	return lines
}
