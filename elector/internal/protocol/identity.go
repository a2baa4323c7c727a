package protocol

import (
	"crypto/rand"
	"slices"
	"strings"
)

// Identities names the nodes that a holder votes with, as in its lock value: in the
// order of its list, with "-" for a node whose identity it does not know, or no longer.
// Two candidates with different lists can each win a majority; their identities
// reveal that.
//
// A node's identity is a random word in a key of its own. It is lost with the node's
// data: a machine that was replaced by an empty one, and still runs somewhere, must
// not be mistaken for its replacement.
type Identities string

const (
	notKnown = "-"
	// IdentityLength is the length of a new identity.
	IdentityLength = 6 // of 32 letters: two of ten nodes share one in 1 of 10^8 elections
	longIdentity   = 16
	maxIdentities  = 64
)

// NewIdentity returns a random identity.
func NewIdentity() string { return rand.Text()[:IdentityLength] }

// ParseIdentity parses what a node answered as its identity; empty: it is not a valid one.
func ParseIdentity(v any) string {
	if s, _ := v.(string); len(s) <= longIdentity && isAlnum(s) {
		return s
	}
	return ""
}

// parseIdentities parses the field of a lock value. An invalid field names no node.
func parseIdentities(s string) Identities {
	all := strings.Split(s, ",")
	if len(all) > maxIdentities {
		return ""
	}
	for _, id := range all {
		if id != notKnown && ParseIdentity(id) == "" {
			return ""
		}
	}
	return Identities(s)
}

// IdentitiesOf joins the identities of a list of nodes; an invalid one counts as not
// known.
func IdentitiesOf(all []string) Identities {
	words, some := make([]string, len(all)), false
	for i, id := range all {
		words[i] = notKnown
		if ParseIdentity(id) != "" {
			words[i], some = id, true
		}
	}
	if !some {
		return ""
	}
	return Identities(strings.Join(words, ","))
}

// ByNode returns the identities of n nodes in their order, empty where not known.
func (ids Identities) ByNode(n int) []string {
	all := make([]string, n)
	for i, id := range strings.Split(string(ids), ",") {
		if i < n && id != notKnown {
			all[i] = id
		}
	}
	return all
}

// Known returns the identities that are known.
func (ids Identities) Known() []string {
	if ids == "" {
		return nil
	}
	return slices.DeleteFunc(strings.Split(string(ids), ","), func(id string) bool { return id == notKnown })
}

// Differ reports whether these nodes and the others can't all be in one list of n nodes,
// because together they are more. The order does not matter, and unknown nodes don't count.
func (ids Identities) Differ(others []string, n int) bool {
	all := map[string]bool{}
	for _, id := range append(ids.Known(), others...) {
		all[id] = true
	}
	return len(all) > n
}

// Meet reports whether these nodes and the others have one in common, as far as both are known. Candidates
// whose nodes have none vote about another lock, although messages reach both.
func (ids Identities) Meet(others Identities) bool {
	known := others.Known()
	return ids == "" || others == "" || slices.ContainsFunc(ids.Known(), func(id string) bool { return slices.Contains(known, id) })
}
