package protocol

import (
	"slices"
	"testing"
)

func TestMessages(t *testing.T) {
	for text, want := range map[string]Message{
		"1 elected 7  {}":             {Version: 1, Kind: KindElected, Token: 7, Event: "{}"},
		"1 released 7  {}":            {Version: 1, Kind: KindReleased, Token: 7, Event: "{}"},
		"1 released 7 ABC {\"a\": 1}": {Version: 1, Kind: KindReleased, Token: 7, First: "ABC", Event: "{\"a\": 1}"},
		"1 released 7 !ABC ":          {Version: 1, Kind: KindReleased, Token: 7, First: Reservation("ABC")},
		"1 address 9007199254  x":     {Version: 1, Kind: "address", Token: 9007199254, Event: "x"},
	} {
		got, ok := ParseMessage(text)
		if !ok || got != want {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
		if again := got.Head() + got.Event; again != text {
			t.Errorf("%q is written as %q", text, again)
		}
	}
	for _, text := range []string{"", "1", "1 elected", "1 elected 7 ", "1 elected -1  {}", "1 released x y z", "1 released  7 {}", "elected 7  {}", "2 elected 7  {}", "-1 elected 7  {}", "{}", `{"v":1, "kind": "elected", "token": 7}`} {
		if got, ok := ParseMessage(text); ok {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

// Subscribe and publish know no databases.
func TestChannelsBelongToTheDatabase(t *testing.T) {
	k := KeysOf("mandate", "orders")
	for database, want := range map[string][]string{
		"":  {"mandate:{orders}:events", "mandate:{orders}:ask", "mandate:{orders}:roll"},
		"1": {"mandate:{orders db=1}:events", "mandate:{orders db=1}:ask", "mandate:{orders db=1}:roll"},
	} {
		in := k.In(database)
		if got := []string{in.Events, in.Ask, in.Roll}; !slices.Equal(got, want) {
			t.Errorf("database %q: %q, want %q", database, got, want)
		}
		if in.Lock != k.Lock {
			t.Errorf("database %q: the lock is %s", database, in.Lock)
		}
	}
}
