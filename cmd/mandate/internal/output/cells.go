package output

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Cells returns how many cells of a terminal a text takes: two for East Asian characters and emoji,
// none for combining characters.
func Cells(s string) int {
	n := 0
	for _, r := range s {
		n += cellsOf(r)
	}
	return n
}

func cellsOf(r rune) int {
	switch {
	case r < 0x300: // most text
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	default:
		return 1
	}
}

// wide holds the characters of Unicode's East_Asian_Width W and F, in ranges that include
// unassigned characters.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1}, {0x231a, 0x231b, 1}, {0x23e9, 0x23ec, 1}, {0x23f0, 0x23f3, 3}, {0x25fd, 0x25fe, 1}, {0x2614, 0x2615, 1},
		{0x2648, 0x2653, 1}, {0x267f, 0x2693, 0x14}, {0x26a1, 0x26a1, 1}, {0x26aa, 0x26ab, 1}, {0x26bd, 0x26be, 1}, {0x26c4, 0x26c5, 1},
		{0x26ce, 0x26d4, 6}, {0x26ea, 0x26ea, 1}, {0x26f2, 0x26f3, 1}, {0x26f5, 0x26fa, 5}, {0x26fd, 0x2705, 8}, {0x270a, 0x270b, 1},
		{0x2728, 0x2728, 1}, {0x274c, 0x274e, 2}, {0x2753, 0x2755, 1}, {0x2757, 0x2757, 1}, {0x2795, 0x2797, 1}, {0x27b0, 0x27bf, 15},
		{0x2b1b, 0x2b1c, 1}, {0x2b50, 0x2b55, 5}, {0x2e80, 0x303e, 1}, {0x3041, 0x4dbf, 1}, {0x4e00, 0xa4cf, 1}, {0xa960, 0xa97f, 1},
		{0xac00, 0xd7a3, 1}, {0xf900, 0xfaff, 1}, {0xfe10, 0xfe19, 1}, {0xfe30, 0xfe6f, 1}, {0xff00, 0xff60, 1}, {0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{
		{0x16fe0, 0x18cff, 1}, {0x1b000, 0x1b2ff, 1}, {0x1f004, 0x1f0cf, 0xcb}, {0x1f18e, 0x1f18e, 1}, {0x1f191, 0x1f19a, 1},
		{0x1f200, 0x1f265, 1}, {0x1f300, 0x1f64f, 1}, {0x1f680, 0x1f6ff, 1}, {0x1f7e0, 0x1f7eb, 1}, {0x1f90c, 0x1f9ff, 1},
		{0x1fa70, 0x1faff, 1}, {0x20000, 0x3fffd, 1},
	},
}

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

// Cut shortens a text at its end to at most so many cells.
func Cut(s string, cells int) string {
	if s = Printable(s); Cells(s) <= cells {
		return s
	}
	if cells <= len(ellipsis) {
		return head(s, cells)
	}
	return head(s, cells-len(ellipsis)) + ellipsis
}

// CutMiddle shortens a text in the middle.
func CutMiddle(s string, cells int) string {
	return Shorten([]string{s}, cells)[0]
}

// Shorten makes names fit into a column of so many cells. It removes the same part of each long
// name, preferably from the middle, so that different names stay different: three hosts of one
// domain must not look the same. If no single part can be removed, the names stay whole.
func Shorten(names []string, cells int) []string {
	clean := make([]string, len(names))
	for i, name := range names {
		clean[i] = Printable(name)
	}
	longest := 0
	for _, name := range clean {
		longest = max(longest, Cells(name))
	}
	if longest <= cells {
		return clean
	}
	different := distinct(clean)
	try := func(shorten func(name string) string) []string {
		short := slices.Clone(clean)
		for i, name := range short {
			if Cells(name) > cells {
				short[i] = shorten(name)
			}
		}
		if distinct(short) < different {
			return nil
		}
		return short
	}
	keep := max(0, cells-len(ellipsis))
	for _, end := range endsOf(keep) {
		if short := try(func(name string) string { return head(name, keep-end) + ellipsis + tail(name, end) }); short != nil {
			return short
		}
	}
	keep = max(0, keep-len(ellipsis))
	for from := 1; from < longest && keep > 0; from++ { // the differing part is between two equal parts
		if short := try(func(name string) string { return ellipsis + head(tail(name, Cells(name)-from), keep) + ellipsis }); short != nil {
			return short
		}
	}
	return clean
}

// endsOf returns the ways to divide so many cells between both ends of a name, as the cells of the
// second end. The even division comes first.
func endsOf(cells int) (ends []int) {
	half := cells / 2
	for d := 0; d <= cells-half; d++ {
		if half-d >= 0 {
			ends = append(ends, half-d)
		}
		if d > 0 {
			ends = append(ends, half+d)
		}
	}
	return ends
}

func distinct(names []string) int {
	set := make(map[string]struct{}, len(names))
	for _, name := range names {
		set[name] = struct{}{}
	}
	return len(set)
}

func head(s string, cells int) string {
	for i, r := range s {
		if cells -= cellsOf(r); cells < 0 {
			return s[:i]
		}
	}
	return s
}

func tail(s string, cells int) string {
	runes := []rune(s)
	for i := len(runes) - 1; i >= 0; i-- {
		if cells -= cellsOf(runes[i]); cells < 0 {
			return string(runes[i+1:])
		}
	}
	return s
}

// List joins the first names, at most limit, and counts the others.
func List(names []string, limit int) string {
	if more := len(names) - limit; more > 0 {
		names = append(slices.Clone(names[:limit]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
