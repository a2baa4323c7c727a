package main

import (
	"strings"
	"testing"
)

// A script needs names that exist; a person, a table that fits the screen.
func TestColumnsAreCutOnATerminalOnly(t *testing.T) {
	long := strings.Repeat("x", 40)
	for terminal, want := range map[bool]string{true: "xxxx..xxxx", false: long} {
		column := (&paper{terminal: terminal}).column(10, []string{"a", long})
		if got := column(long); got != want {
			t.Errorf("terminal %v: %q, want %q", terminal, got, want)
		}
		if got := column("a"); len(got) != len(want) {
			t.Errorf("terminal %v: the column is not aligned: %q", terminal, got)
		}
	}
}
