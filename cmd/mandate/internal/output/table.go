package output

import (
	"slices"
	"strings"
	"text/tabwriter"
)

// Table is a table of cells with column titles. A column without cells is left out.
type Table struct {
	titles []string
	rows   []row
}

type row struct {
	cells []string
	color Color
	notes []Field // with no Name
}

const (
	columnGap  = 2
	noteIndent = 4
)

// NewTable makes an empty table.
func NewTable(titles ...string) *Table { return &Table{titles: titles} }

// Row adds a row with a cell for each column.
func (t *Table) Row(c Color, cells ...string) {
	clean := make([]string, len(t.titles))
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

// Table formats a table as lines, as wide as its cells. The last cell of a row that is wider than the terminal stands below it.
func (p *Printer) Table(t *Table) []string {
	lines := t.lines()
	if p.Width > 0 && cells(lines[0]) > p.Width {
		lines[0] = strings.TrimRight(strings.TrimSuffix(lines[0], t.titles[len(t.titles)-1]), " ")
	}
	all := []string{p.Paint(Dim, lines[0])}
	for i, r := range t.rows {
		line, last := lines[i+1], r.cells[len(r.cells)-1]
		if p.Width > 0 && cells(line) > p.Width && last != "" {
			line = strings.TrimRight(strings.TrimSuffix(line, last), " ")
			r.notes = slices.Insert(slices.Clone(r.notes), 0, Field{Text: last, Color: r.color})
		}
		all = append(all, p.Paint(r.color, line))
		for _, n := range r.notes {
			for j, text := range p.Wrap(n.Text, noteIndent) {
				if j == 0 {
					text = strings.Repeat(" ", noteIndent) + text
				}
				all = append(all, p.Paint(n.Color, text))
			}
		}
	}
	return all
}

// lines formats the titles and the rows.
func (t *Table) lines() []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, columnGap, ' ', 0)
	for j := range len(t.rows) + 1 {
		var texts []string
		for i, title := range t.titles {
			switch {
			case !slices.ContainsFunc(t.rows, func(r row) bool { return r.cells[i] != "" }):
			case j == 0:
				texts = append(texts, title)
			default:
				texts = append(texts, t.rows[j-1].cells[i])
			}
		}
		_, _ = w.Write([]byte(strings.Join(texts, "\t") + "\n")) // to memory
	}
	_ = w.Flush()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}
