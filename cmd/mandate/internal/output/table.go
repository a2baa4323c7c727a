package output

import (
	"slices"
	"strings"
	"text/tabwriter"
)

// Table is a table of cells with column titles. On a terminal that is too narrow its names are
// shortened, so that different names stay different. An empty column is left out.
type Table struct {
	columns []Column
	rows    []row
}

// Column is one column of a Table.
type Column struct {
	Title string
	Name  bool // its cells are names, which may be shortened
	Rest  bool // it is printed below its row, also in a whole table, where the terminal is too narrow for it
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
	lines := t.lines(0)
	tooWide := func() bool {
		return p.Width > 0 && slices.ContainsFunc(lines, func(line string) bool { return cells(line) > p.Width })
	}
	if tooWide() {
		t.restBelow()
		lines = t.lines(0)
	}
	for most := p.Width; !p.Whole && tooWide() && most >= minName; most-- {
		lines = t.lines(most)
	}
	all := []string{p.Paint(Dim, lines[0])}
	for i, r := range t.rows {
		all = append(all, p.Paint(r.color, lines[i+1]))
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

// lines formats the titles and the rows, with names of at most so many cells; 0: whole names.
func (t *Table) lines(most int) []string {
	rows := make([][]string, len(t.rows)+1)
	for i, c := range t.columns {
		texts := t.column(i, most)
		if slices.ContainsFunc(texts, func(text string) bool { return text != "" }) {
			for j, text := range append([]string{c.Title}, texts...) {
				rows[j] = append(rows[j], text)
			}
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, columnGap, ' ', 0)
	for _, r := range rows {
		_, _ = w.Write([]byte(strings.Join(r, "\t") + "\n")) // to memory
	}
	_ = w.Flush()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// column returns the texts of a column. Its names are shortened, unless different ones would then look the
// same: three hosts of one domain must stay three.
func (t *Table) column(i, most int) []string {
	texts, short, whole := make([]string, len(t.rows)), make([]string, len(t.rows)), map[string]string{}
	unique := t.columns[i].Name && most > 0
	for j, r := range t.rows {
		texts[j], short[j] = r.cells[i], CutMiddle(r.cells[i], most)
		other, twice := whole[short[j]]
		unique = unique && (!twice || other == texts[j])
		whole[short[j]] = texts[j]
	}
	if unique {
		return short
	}
	return texts
}

// restBelow makes the texts of the Rest columns one note below each row, because the terminal would break
// them within a word. Where there are several, each has its title, unless it is a sentence.
func (t *Table) restBelow() {
	several := len(slices.DeleteFunc(slices.Clone(t.columns), func(c Column) bool { return !c.Rest })) > 1
	for j := range t.rows {
		r := &t.rows[j]
		var texts []string
		for i, c := range t.columns {
			text := r.cells[i]
			if !c.Rest || text == "" {
				continue
			}
			if r.cells[i] = ""; !strings.Contains(text, " ") { // a list of numbers could not be wrapped
				text = strings.ReplaceAll(text, ",", ", ")
				if several {
					text = strings.ToLower(c.Title) + " " + text
				}
			}
			texts = append(texts, text)
		}
		r.notes = append([]Field{{Text: strings.Join(texts, "; "), Color: r.color}}, r.notes...)
	}
}
