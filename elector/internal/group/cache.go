package group

import "sync"

// The caches in this file parse a text once that several nodes hold, or that a node returns again and
// again. While shards move, the plan and the members' records change many times a second, and a
// member has to read them while it hands its shards over.

// plans caches the plan that was parsed last.
type plans struct {
	mu   sync.Mutex // of all below
	text string
	plan *Plan
}

// parse is parsePlan with a cache. Callers share the plan, and must not change it.
func (c *plans) parse(text string) *Plan {
	if text == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if text != c.text {
		c.text, c.plan = text, parsePlan(text)
	}
	return c.plan
}

// records caches the members' records that each node returned last.
type records struct {
	mu     sync.Mutex                // of all below
	byNode map[int]map[string]Member // by node and text
}

// parse parses the list that a node returned, of incarnations, each followed by its record. It
// leaves out invalid records. Callers share the members, and must not change them.
func (c *records) parse(node int, list []any) (all []Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shown := make(map[string]Member, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		text := word(list, i+1)
		m, ok := c.known(text)
		if !ok {
			var err error
			if m, err = parseMember(text); err != nil {
				continue
			}
		}
		shown[text] = m
		if m.Incarnation == word(list, i) {
			all = append(all, m)
		}
	}
	if c.byNode == nil {
		c.byNode = map[int]map[string]Member{}
	}
	c.byNode[node] = shown
	return all
}

// known returns the parsed record if any node returned the same text last. The caller holds mu.
func (c *records) known(text string) (Member, bool) {
	for _, shown := range c.byNode {
		if m, ok := shown[text]; ok {
			return m, true
		}
	}
	return Member{}, false
}
