package output

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
)

// A script needs names that exist; a person, a table that fits the screen.
func TestNamesAreShortenedOnATerminalOnly(t *testing.T) {
	long := strings.Repeat("x", 90)
	table := func() *Table {
		t := NewTable(Column{Title: "NAME", Name: true}, Column{Title: "STATE"})
		t.Row(Plain, long, "ok")
		t.Row(Plain, "a", "down")
		return t
	}
	if lines := (&Printer{}).Table(table()); lines[1] != long+"  ok" || lines[2] != "a"+strings.Repeat(" ", 91)+"down" {
		t.Errorf("in a pipe:\n%s", strings.Join(lines, "\n"))
	}
	for width, want := range map[int]int{80: 80, 200: 97, 40: minWidth} {
		lines := (&Printer{Width: width}).Table(table())
		if got := cells(lines[1]); got != want-3 { // the title of the last column is three longer than "ok"
			t.Errorf("%d columns of %d:\n%s", got, width, strings.Join(lines, "\n"))
		}
	}
}

func TestColumnsWithoutCellsAreLeftOut(t *testing.T) {
	table := NewTable(Column{Title: "NAME"}, Column{Title: "PRIORITY"}, Column{Title: "AGE"})
	table.Row(Plain, "a", "", "5s")
	table.Row(Plain, "bb", "", "17s")
	table.Note(Plain, "a\nnote")
	table.Note(Plain, "")
	want := []string{"NAME  AGE", "a     5s", "bb    17s", "    a note"}
	if got := (&Printer{}).Table(table); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// A terminal would break a line that is too long within a word: the text stands below its row.
func TestRestStandsBelowWhereThereIsNoRoom(t *testing.T) {
	table := NewTable(Column{Title: "NAME", Name: true}, Column{Title: "WHAT", Rest: true})
	table.Row(Plain, strings.Repeat("n", 25), strings.Repeat("word ", 10))
	table.Row(Plain, "other", "")
	if lines := (&Printer{Width: 80}).Table(table); len(lines) != 3 {
		t.Errorf("with room:\n%s", strings.Join(lines, "\n"))
	}
	want := []string{"NAME", strings.Repeat("n", 25), strings.Repeat(" ", 4) + strings.Repeat("word ", 7)[:34], strings.Repeat(" ", 4) + "word word word", "other"}
	if lines := (&Printer{Width: 40, Whole: true}).Table(table); !slices.Equal(lines, want) {
		t.Errorf("without:\n%s", strings.Join(lines, "\n"))
	}
}

// What goes to a terminal as prose is broken between words, and only there.
func TestProseIsBrokenBetweenWords(t *testing.T) {
	words := strings.Repeat("seven12 ", 6)
	long := "  - " + words + "end"
	want := []string{"  - seven12 seven12 seven12 seven12", "    seven12 seven12 end"}
	if got := (&Printer{Width: 40}).Prose(long); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, p := range []*Printer{{}, {Width: 200}} {
		if got := p.Prose(long); len(got) != 1 || got[0] != long {
			t.Errorf("%d columns: %q", p.Width, got)
		}
	}
}

func TestDifferentNamesStayDifferent(t *testing.T) {
	const domain = ".mandate-redis.production.svc.cluster.local:6379"
	for first, names := range map[string][]string{
		"order..x2k9z":             {"orders-7f6bd9c5d4-x2k9z", "orders-7f6bd9c5d4-abcde"}, // their ends differ
		"mandate-redis-0" + domain: {"mandate-redis-0" + domain, "mandate-redis-1" + domain},
	} {
		table := NewTable(Column{Title: "NODE", Name: true}, Column{Title: "STATE"})
		for _, name := range names {
			table.Row(Plain, name, strings.Repeat("y", 26))
		}
		if got := (&Printer{Width: 40}).Table(table); strings.Fields(got[1])[0] != first {
			t.Errorf("%q", got)
		}
	}
}

func TestFieldsAreWrappedOnATerminalOnly(t *testing.T) {
	fields := []Field{{Name: "paused", Text: strings.Repeat("word ", 20)}}
	if lines := (&Printer{}).Fields(fields); len(lines) != 1 {
		t.Errorf("in a pipe: %q", lines)
	}
	lines := (&Printer{Width: 60}).Fields(fields)
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "paused      word") || !strings.HasPrefix(lines[1], "            word") {
		t.Errorf("%q", lines)
	}
}

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		500 * time.Microsecond: "500µs", -1500 * time.Millisecond: "-1.5s", 90 * time.Second: "1m30s", 50*time.Hour + 30*time.Minute: "2d02h", 357 * time.Millisecond: "357ms", 0: "0s",
		time.Hour: "1h00m", -61 * time.Minute: "-1h01m",
	} {
		if got := Brief(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if got := Ago(time.Now().Add(time.Minute)); got != "by a clock ahead of ours" {
		t.Errorf("%q", got)
	}
}

// A list of shards has no spaces: below its row it is broken between two of them.
func TestRestOfNumbersIsBrokenBetweenThem(t *testing.T) {
	table := NewTable(Column{Title: "MEMBER", Name: true}, Column{Title: "SHARDS", Rest: true})
	table.Row(Plain, "a", strings.TrimSuffix(strings.Repeat("11,13-15,", 20), ","))
	for i, line := range (&Printer{Width: 40}).Table(table) {
		if len(line) > 40 || i > 1 && !strings.HasPrefix(line, "    1") {
			t.Errorf("%q", line)
		}
	}
}

// What is printed as JSON is what was meant, and holds nothing that a terminal obeys.
func TestJSONIsFitForTerminals(t *testing.T) {
	const hostile, harmless = "a\u009b2J\u202eb\u2066c\u200bd\x7fe\x1bfg\U000e0001h\u0085i\u2028j", "<é 漢 🙂>"
	for name, print := range map[string]func(io.Writer, any) error{"JSON": JSON, "JSONLine": JSONLine} {
		var b strings.Builder
		if err := print(&b, []string{hostile, harmless}); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(b.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) || !strings.Contains(b.String(), harmless) {
			t.Errorf("%s: %q", name, b.String())
		}
		var back []string
		if err := json.Unmarshal([]byte(b.String()), &back); err != nil || !slices.Equal(back, []string{hostile, harmless}) {
			t.Errorf("%s: %q, %v", name, back, err)
		}
	}
}
