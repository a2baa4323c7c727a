package protocol

import (
	"testing"
)

func TestWakeMessages(t *testing.T) {
	for text, want := range map[string]WakeMessage{
		"elected 7":           {Elected: true, Token: 7},
		"released 7 ":         {Token: 7},
		"released 7 ABC":      {Token: 7, First: "ABC"},
		"released 7 !ABC":     {Token: 7, First: Reservation("ABC")},
		"released 9 !A B":     {Token: 9, First: "!A B"},
		"released 9007199254": {Token: 9007199254},
	} {
		got, ok := ParseWakeMessage(text)
		if !ok || got != want {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
		if again, ok := ParseWakeMessage(got.String()); !ok || again != want {
			t.Errorf("%q is written as %q", text, got.String())
		}
	}
	for _, text := range []string{"", "elected", "elected ", "elected -1", "elected 7 ", "released", "released x y", "released -1 a", "Released 7 ", "{"} {
		if got, ok := ParseWakeMessage(text); ok {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}
