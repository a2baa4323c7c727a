package output

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cells returns how many cells of a terminal a text takes. Characters of two cells, as in East Asian
// names, count as one.
func Cells(s string) int { return utf8.RuneCountInString(s) }

// Printable replaces characters that could move the cursor or change how the rest of a line is
// displayed.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

const ellipsis = ".."

// CutMiddle shortens a text in the middle to at most so many cells.
func CutMiddle(s string, cells int) string {
	runes := []rune(Printable(s))
	if len(runes) <= cells {
		return string(runes)
	}
	keep := max(0, cells-len(ellipsis))
	return string(runes[:keep-keep/2]) + ellipsis + string(runes[len(runes)-keep/2:])
}

// Shorten makes names fit into a column of so many cells, unless different names would then look the
// same: three hosts of one domain must stay three.
func Shorten(names []string, cells int) []string {
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = CutMiddle(name, cells)
	}
	if distinct(short) < distinct(names) {
		return names
	}
	return short
}

func distinct(names []string) int {
	set := make(map[string]struct{}, len(names))
	for _, name := range names {
		set[name] = struct{}{}
	}
	return len(set)
}

// List joins the first names, at most limit, and counts the others.
func List(names []string, limit int) string {
	if more := len(names) - limit; more > 0 {
		names = append(slices.Clone(names[:limit]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
