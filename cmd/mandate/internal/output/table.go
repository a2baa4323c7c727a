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
	notes []Field // with no Name
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
	last.notes = append(last.notes, Field{Text: text, Color: c})
}

// Table formats a table as lines. It may change the table to make it fit.
func (p *Printer) Table(t *Table) []string {
	widths := t.widths()
	if p.Width > 0 && !p.Whole && total(widths) > p.Width {
		t.restBelow()
		widths = t.widths()
		t.narrow(widths, p.Width)
	}
	var titles []string
	for _, c := range t.columns {
		titles = append(titles, c.Title)
	}
	lines := []string{p.Paint(Dim, t.line(widths, titles))}
	for _, r := range t.rows {
		lines = append(lines, p.Paint(r.color, t.line(widths, r.cells)))
		for _, n := range r.notes {
			for i, text := range p.Wrap(n.Text, noteIndent) {
				if i == 0 {
					text = strings.Repeat(" ", noteIndent) + text
				}
				lines = append(lines, p.Paint(n.Color, text))
			}
		}
	}
	return lines
}

// widths returns the widths of the columns; 0: it is empty.
func (t *Table) widths() []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		for _, r := range t.rows {
			widths[i] = max(widths[i], cells(r.cells[i]))
		}
		if widths[i] > 0 {
			widths[i] = max(widths[i], cells(c.Title))
		}
	}
	return widths
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

// restBelow makes the texts of the Rest column notes below the rows, because the terminal would break
// them within a word.
func (t *Table) restBelow() {
	i := slices.IndexFunc(t.columns, func(c Column) bool { return c.Rest })
	if i < 0 {
		return
	}
	for j := range t.rows {
		r := &t.rows[j]
		text := r.cells[i]
		if !strings.Contains(text, " ") { // a list of numbers, which could not be wrapped
			text = strings.ReplaceAll(text, ",", ", ")
		}
		r.notes = append([]Field{{Text: text, Color: r.color}}, r.notes...)
		r.cells[i] = ""
	}
}

// narrow takes from the widest columns of names what there is no room for, and shortens the names,
// unless different ones would then look the same: three hosts of one domain must stay three.
func (t *Table) narrow(widths []int, room int) {
	for total(widths) > room {
		widest := -1
		for i, c := range t.columns {
			if c.Name && widths[i] > minName && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	for i, c := range t.columns {
		if !c.Name {
			continue
		}
		whole := map[string]string{} // by the shortened name
		for _, r := range t.rows {
			whole[CutMiddle(r.cells[i], widths[i])] = r.cells[i]
		}
		unique := !slices.ContainsFunc(t.rows, func(r row) bool { return whole[CutMiddle(r.cells[i], widths[i])] != r.cells[i] })
		for _, r := range t.rows {
			if unique {
				r.cells[i] = CutMiddle(r.cells[i], widths[i])
			}
		}
	}
}

func (t *Table) line(widths []int, texts []string) string {
	var b strings.Builder
	for i, c := range t.columns {
		if widths[i] == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(strings.Repeat(" ", columnGap))
		}
		fill := strings.Repeat(" ", max(0, widths[i]-cells(texts[i])))
		if c.Right {
			b.WriteString(fill + texts[i])
		} else {
			b.WriteString(texts[i] + fill)
		}
	}
	return strings.TrimRight(b.String(), " ")
}
