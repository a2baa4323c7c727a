package console

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
)

// cache holds the newest state of everything, as it is sent to viewers. Writers never wait for
// readers.
type cache struct {
	mu      sync.Mutex
	last    uint64 // number of the newest change; the first one is 1
	entries map[key]entry
	changed chan struct{} // closed at the next change
}

// key identifies an entry: a kind, and an election or the whole site ("").
type key struct{ kind, election string }

type entry struct {
	number uint64
	data   []byte
}

// These are the kinds of entries, which are the names of the server-sent events.
const (
	kindSite   = "site"   // what is not about one election
	kindRedis  = "redis"  // the nodes
	kindRow    = "row"    // an election in the table
	kindPast   = "past"   // the past terms of that row
	kindStatus = "status" // who leads
	kindRoll   = "roll"   // the candidates
	kindTerms  = "terms"  // the history
	kindGroup  = "group"  // a group of shards in the table
	kindShards = "shards" // who owns its shards
	kindGone   = "gone"   // the election does not exist any more
	kindHosts  = "hosts"  // which candidates run on which host
)

func newCache() *cache {
	return &cache{entries: map[key]entry{}, changed: make(chan struct{})}
}

// set replaces an entry. It is sent to viewers only if it has changed.
func (c *cache) set(kind, election string, v any) {
	data, err := json.Marshal(v)
	if err != nil { // impossible for strings and numbers
		panic("console: an entry that can't be encoded: " + err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := key{kind, election}
	if bytes.Equal(c.entries[at].data, data) {
		return
	}
	c.last++
	c.entries[at] = entry{c.last, data}
	if kind != kindGone {
		delete(c.entries, key{kindGone, election})
	}
	c.wake()
}

// details are the kinds of entries that only viewers of that election are sent.
var details = []string{kindStatus, kindRoll, kindTerms, kindShards}

// forget removes the details of an election.
func (c *cache) forget(election string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range details {
		delete(c.entries, key{kind, election})
	}
}

func (c *cache) has(kind, election string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.entries[key{kind, election}]
	return ok
}

// drop removes an election.
func (c *cache) drop(election string) {
	c.forget(election)
	c.mu.Lock()
	delete(c.entries, key{kindRow, election})
	delete(c.entries, key{kindPast, election})
	delete(c.entries, key{kindGroup, election})
	c.mu.Unlock()
	c.set(kindGone, election, gone{election})
}

// clear removes all entries, which would become stale without viewers.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
}

// The caller holds mu.
func (c *cache) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// after returns the changes after number n as server-sent events in order, the number to continue
// with, and a channel that is closed at the next change.
func (c *cache) after(n uint64, wants func(key) bool) ([]byte, uint64, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	type change struct {
		kind string
		entry
	}
	var found []change
	for at, p := range c.entries {
		if p.number > n && wants(at) {
			found = append(found, change{at.kind, p})
		}
	}
	slices.SortFunc(found, func(x, y change) int { return int(x.number) - int(y.number) })
	var out bytes.Buffer
	for _, e := range found {
		out.WriteString("event: " + e.kind + "\ndata: ")
		out.Write(e.data) // JSON of one line
		out.WriteString("\n\n")
	}
	return out.Bytes(), c.last, c.changed
}
