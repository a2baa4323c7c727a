package protocol

import (
	"encoding/json"
	"strings"
	"time"
)

// Cordon is an operator's mark on a candidate, or on all candidates of a host: they do not
// campaign in any election of a prefix. The nodes keep one hash of cordons for each prefix.
type Cordon struct {
	ID     string    `json:"id"` // a candidate's id, or the name of a host: all candidates there
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Drain  bool      `json:"drain,omitempty"` // the candidate also hands over its elections and shards
}

// CordonsKey returns the key of the hash under a prefix, which is also the channel on which
// its changes are announced. Each field of the hash is an id, and its value a Cordon.
func CordonsKey(prefix string) string { return prefix + ":cordons" }

// ParseCordon parses a field of the hash; ok is false if no candidate can have that id. A value
// in any other format cordons as well, and is shown as the reason.
func ParseCordon(id, value string) (c Cordon, ok bool) {
	if CheckWord("", id, MaxName, "") != nil {
		return Cordon{}, false
	}
	if len(value) > MaxMessage || json.Unmarshal([]byte(value), &c) != nil {
		c = Cordon{Reason: value}
	}
	c.ID = id
	c.bound()
	return c, true
}

// bound limits the length of the texts, which others wrote.
func (c *Cordon) bound() {
	c.ID, c.By, c.Reason = Clip(c.ID, MaxName), Clip(c.By, MaxReason), Clip(c.Reason, MaxReason)
}

// Bounded returns a copy with texts of bounded length, for a cordon that another candidate has
// published.
func (c *Cordon) Bounded() *Cordon {
	if c == nil {
		return nil
	}
	b := *c
	b.bound()
	return &b
}

// String describes who cordoned the candidate, since when and why. It is never empty.
func (c Cordon) String() string {
	var parts []string
	if c.By != "" {
		parts = append(parts, "by "+c.By)
	}
	if !c.Since.IsZero() {
		parts = append(parts, "since "+c.Since.UTC().Format(time.RFC3339))
	}
	text := strings.Join(parts, " ")
	switch {
	case text == "" && c.Reason == "":
		return "by an operator"
	case text == "":
		return c.Reason
	case c.Reason == "":
		return text
	default:
		return text + ": " + c.Reason
	}
}

// CordonInForce returns the newest cordon of an id that a node shows, or nil if none is in force.
// byNode has nil for a node that has not answered. A cordon is in force if a node shows it, unless a
// majority answered without it: a node that is down must not end a cordon, nor a single one make it.
func CordonInForce(byNode []map[string]Cordon, id string) (found *Cordon) {
	without := 0
	for _, all := range byNode {
		c, has := all[id]
		switch {
		case has && (found == nil || c.Since.After(found.Since)):
			found = &c
		case !has && all != nil:
			without++
		}
	}
	if without > len(byNode)/2 {
		return nil
	}
	return found
}
