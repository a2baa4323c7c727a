package protocol

import (
	"testing"
)

func TestMessages(t *testing.T) {
	for text, want := range map[string]Message{
		"elected 7  {}":             {Kind: KindElected, Token: 7, Event: "{}"},
		"released 7  {}":            {Kind: KindReleased, Token: 7, Event: "{}"},
		"released 7 ABC {\"a\": 1}": {Kind: KindReleased, Token: 7, First: "ABC", Event: "{\"a\": 1}"},
		"released 7 !ABC ":          {Kind: KindReleased, Token: 7, First: Reservation("ABC")},
		"address 9007199254  x":     {Kind: "address", Token: 9007199254, Event: "x"},
	} {
		got, ok := ParseMessage(text)
		if !ok || got != want {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
		if again := got.Head() + got.Event; again != text {
			t.Errorf("%q is written as %q", text, again)
		}
	}
	for _, text := range []string{"", "elected", "elected 7 ", "elected -1  {}", "released x y z", "released  7 {}", "{}", `{"v":1, "kind": "elected", "token": 7}`} {
		if got, ok := ParseMessage(text); ok {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}
