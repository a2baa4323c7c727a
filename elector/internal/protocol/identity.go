package protocol

import (
	"crypto/rand"
	"slices"
	"strings"
	"time"
)

// Identities are the nodes that a holder votes with, as its lock value names them:
// in the order of its list, "-" for one that it does not know (any more). Two
// candidates whose lists differ can each win a majority; that is how they notice.
//
// A node's identity is a random word in a key of its own. It changes when the node
// loses its data: a machine that was replaced by an empty one, and still runs
// somewhere, must not be taken for its successor.
type Identities string

const (
	notKnown = "-"
	// IdentityLength is that of a new one.
	IdentityLength = 6 // of 32 letters each: two of ten nodes share one in 10^8 elections
	longIdentity   = 16
	maxIdentities  = 64
)

// NewIdentity is one that no node has yet.
func NewIdentity() string { return rand.Text()[:IdentityLength] }

// ParseIdentity reads what a node answered as its identity; empty: it can be none.
func ParseIdentity(v any) string {
	if s, _ := v.(string); len(s) <= longIdentity && isAlnum(s) {
		return s
	}
	return ""
}

// parseIdentities reads the field of a lock value. What is none of ours names no node.
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

// IdentitiesOf puts the identities of a list together; one that can't be any is not
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

// ByNode are the identities of n nodes in their order, empty where not known.
func (ids Identities) ByNode(n int) []string {
	all := make([]string, n)
	for i, id := range strings.Split(string(ids), ",") {
		if i < n && id != notKnown {
			all[i] = id
		}
	}
	return all
}

// Known are the identities that are known.
func (ids Identities) Known() []string {
	if ids == "" {
		return nil
	}
	return slices.DeleteFunc(strings.Split(string(ids), ","), func(id string) bool { return id == notKnown })
}

// Differ reports whether these nodes and others can't all be in one list of n: together
// they are more. Neither the order of a list matters, nor a node that is not known.
func (ids Identities) Differ(others []string, n int) bool {
	all := map[string]bool{}
	for _, id := range append(ids.Known(), others...) {
		all[id] = true
	}
	return len(all) > n
}

// ConfirmedWithin and Settled are how long an identity is good for. A lock value that is read now was written at
// most a lease ago, what it names had been confirmed at most ConfirmedWithin before it was
// sent, and in a partition a request waits in the network: for a lease, it is assumed. So
// who has known a node under one identity for Settled can't be misled by a value from
// before the node got it.
func ConfirmedWithin(lease time.Duration) time.Duration { return lease * 3 / 2 } // a follower claims once a lease

// Settled is from when on an identity that a node has shown all the time is sure.
func Settled(lease time.Duration) time.Duration { return 2*lease + ConfirmedWithin(lease) }
