package group

import "sync"

// What several nodes hold, or a node holds again and again, is read once. While shards move the
// plan and the members' records change many times a second, and that is what such a member has
// to do beside handing them over.

// plans keeps the plan that was read last.
type plans struct {
	mu   sync.Mutex // of all below
	text string
	plan *Plan
}

// parse is parsePlan. Nobody may change the plan.
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

// records keeps those that each node has shown last, by their text.
type records struct {
	mu     sync.Mutex // of all below
	byNode map[int]map[string]Member
}

// parse reads what a node has shown, an incarnation before each record. What is no member's
// record is left out. Nobody may change the members.
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

// known is a record that some node has shown last. The caller holds mu.
func (c *records) known(text string) (Member, bool) {
	for _, shown := range c.byNode {
		if m, ok := shown[text]; ok {
			return m, true
		}
	}
	return Member{}, false
}
