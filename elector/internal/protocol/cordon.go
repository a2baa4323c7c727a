package protocol

import (
	"encoding/json"
	"strings"
	"time"
)

// Cordon is an operator's mark on a candidate, in all elections of a prefix: it does not
// campaign. The nodes keep one hash of them for each prefix.
type Cordon struct {
	ID     string    `json:"id"` // a candidate's id, or the name of a host: all candidates there
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Drain  bool      `json:"drain,omitempty"` // it hands over what it leads, and its shards, too
}

// CordonsKey is the key of the hash under a prefix, and the channel on which its changes
// are announced. In it each field is an id, and its value a Cordon.
func CordonsKey(prefix string) string { return prefix + ":cordons" }

// ParseCordon reads a field of the hash; false when no candidate can be called that. What no
// operator of ours wrote there cordons as well: it is the reason.
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

// bound limits the texts that others wrote.
func (c *Cordon) bound() {
	c.ID, c.By, c.Reason = Clip(c.ID, MaxName), Clip(c.By, MaxReason), Clip(c.Reason, MaxReason)
}

// Bounded is a record that another candidate has published, with texts of bounded length.
func (c *Cordon) Bounded() *Cordon {
	if c == nil {
		return nil
	}
	b := *c
	b.bound()
	return &b
}

// String is who cordoned it, since when and why, for people; never empty.
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

// CordonInForce is the cordon of an id, as the nodes show them; nil: there is none. byNode has
// nil for a node that has not answered. A cordon is in force unless a majority does not have
// it: a node that is down must not end it, nor a single one make it.
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
