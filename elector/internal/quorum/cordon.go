package quorum

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
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

// parseCordon reads a field of the hash; false when no candidate can be called that. What no
// operator of ours wrote there cordons as well: it is the reason.
func parseCordon(id, value string) (c Cordon, ok bool) {
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

// Cordon records a cordon on every node, over the one that is there, and announces it.
func (ns *Nodes) Cordon(ctx context.Context, prefix string, c Cordon, limit time.Duration) []error {
	value, err := json.Marshal(c)
	if err != nil { // strings, and a time of this century
		panic("quorum: a cordon that can't be encoded: " + err.Error())
	}
	key := CordonsKey(prefix)
	return ns.each(ctx, limit, func(ctx context.Context, rdb redis.UniversalClient) error {
		if err := rdb.HSet(ctx, key, c.ID, value).Err(); err != nil {
			return needs(err, "+hset ~"+key)
		}
		return needs(rdb.Publish(ctx, key, c.ID).Err(), "+publish &"+key)
	})
}

// Uncordon ends a cordon; ended reports whether a node had it.
func (ns *Nodes) Uncordon(ctx context.Context, prefix, id string, limit time.Duration) (ended bool, errs []error) {
	var removed atomic.Int64
	key := CordonsKey(prefix)
	errs = ns.each(ctx, limit, func(ctx context.Context, rdb redis.UniversalClient) error {
		n, err := rdb.HDel(ctx, key, id).Result()
		if err != nil {
			return needs(err, "+hdel ~"+key)
		}
		removed.Add(n)
		return needs(rdb.Publish(ctx, key, id).Err(), "+publish &"+key)
	})
	return removed.Load() > 0, errs
}

// CordonsOn reads the cordons of one node, by id.
func (ns *Nodes) CordonsOn(ctx context.Context, node int, prefix string, limit time.Duration) (all map[string]Cordon, err error) {
	key := CordonsKey(prefix)
	err = ns.On(ctx, node, limit, func(ctx context.Context, rdb redis.UniversalClient) error {
		fields, err := rdb.HGetAll(ctx, key).Result()
		if err != nil {
			return needs(err, "+hgetall %R~"+key)
		}
		all = make(map[string]Cordon, len(fields))
		for id, value := range fields {
			if c, ok := parseCordon(id, value); ok {
				all[id] = c
			}
		}
		return nil
	})
	return all, err
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
