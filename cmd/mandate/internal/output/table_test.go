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

func TestColumnsWithoutCellsAreLeftOut(t *testing.T) {
	table := NewTable("NAME", "PRIORITY", "AGE")
	table.Row(Plain, "a", "", "5s")
	table.Row(Plain, "bb", "", "17s")
	table.Note(Plain, "a\nnote")
	table.Note(Plain, "")
	want := []string{"NAME  AGE", "a     5s", "bb    17s", "    a note"}
	if got := (&Printer{}).Table(table); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// What a terminal has no room for stands below its row, whole; elsewhere a row is a line.
func TestLastCellStandsBelowWideRows(t *testing.T) {
	long := strings.Repeat("seven12 ", 6) + "end"
	table := NewTable("NAME", "CONDITION")
	table.Row(Plain, "a", long)
	table.Row(Plain, "b", "short")
	want := []string{"NAME  CONDITION", "a", "    seven12 seven12 seven12 seven12", "    seven12 seven12 end", "b     short"}
	if got := (&Printer{Width: 40}).Table(table); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	wide := NewTable("NAME", "CONDITION")
	wide.Row(Plain, strings.Repeat("x", 36), "short")
	if got := (&Printer{Width: 40}).Table(wide); !slices.Equal(got, []string{"NAME", strings.Repeat("x", 36), "    short"}) {
		t.Errorf("%q", got)
	}
	for _, p := range []*Printer{{}, {Width: 200}} {
		if got := p.Table(table); len(got) != 3 || got[1] != "a     "+long {
			t.Errorf("%q", got)
		}
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
