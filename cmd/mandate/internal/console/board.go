package console

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
)

// board holds the newest state of everything, as viewers get it. Nobody who
// writes to it ever waits for one who reads.
type board struct {
	mu      sync.Mutex
	last    uint64 // the number of the newest change; the first one is 1
	parts   map[place]part
	changed chan struct{} // closed at the next change
}

// place is what a part is about: an election, or the site ("").
type place struct{ kind, election string }

type part struct {
	number uint64
	data   []byte
}

// The kinds of parts: the names of the server-sent events.
const (
	kindSite   = "site"   // what is not about one election
	kindStatus = "status" // who leads
	kindRoll   = "roll"   // the candidates
	kindTerms  = "terms"  // the history
	kindGone   = "gone"   // the election is not there any more
)

func newBoard() *board {
	return &board{parts: map[place]part{}, changed: make(chan struct{})}
}

// set replaces a part; viewers hear of it only if it differs.
func (b *board) set(kind, election string, v any) {
	data, err := json.Marshal(v)
	if err != nil { // strings and numbers
		panic("console: a part that can't be encoded: " + err.Error())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := place{kind, election}
	if bytes.Equal(b.parts[at].data, data) {
		return
	}
	b.last++
	b.parts[at] = part{b.last, data}
	delete(b.parts, place{kindGone, election})
	b.wake()
}

// drop takes an election off.
func (b *board) drop(election string) {
	b.mu.Lock()
	for _, kind := range []string{kindStatus, kindRoll, kindTerms} {
		delete(b.parts, place{kind, election})
	}
	b.mu.Unlock()
	b.set(kindGone, election, gone{election})
}

// clear forgets everything: nobody watches, and it gets old.
func (b *board) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.parts)
}

func (b *board) knows(election string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.parts[place{kindStatus, election}]
	return ok
}

// wake is called with the lock held.
func (b *board) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// after is what changed after a number, as server-sent events in order; the
// number to go on with; and what to wait on for more.
func (b *board) after(n uint64) ([]byte, uint64, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	type entry struct {
		kind string
		part
	}
	var found []entry
	for at, p := range b.parts {
		if p.number > n {
			found = append(found, entry{at.kind, p})
		}
	}
	slices.SortFunc(found, func(x, y entry) int { return int(x.number) - int(y.number) })
	var out bytes.Buffer
	for _, e := range found {
		out.WriteString("event: " + e.kind + "\ndata: ")
		out.Write(e.data) // JSON of one line
		out.WriteString("\n\n")
	}
	return out.Bytes(), b.last, b.changed
}
