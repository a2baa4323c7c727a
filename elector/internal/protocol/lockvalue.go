package protocol

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LockValue is the value of the lock key: its holder, the holder's attempt and
// settings. It is written as one readable line:
//
//	<candidate>/<incarnation>/<seq> n=<nodes> lease=<ms> v=<protocol>[ since=<ms>][ ids=<identities>][ addr=<advertised>] token=<token>
type LockValue struct {
	Candidate   string        // the candidate's id
	Incarnation string        // random per Elector: distinguishes two processes with one id
	Seq         uint64        // counts the attempts of an incarnation
	Nodes       int           // how many nodes vote, by the holder's configuration
	Lease       time.Duration // whole milliseconds
	Since       time.Time     // when the attempt began, by the holder's clock, to the millisecond; zero: not known
	Identities  Identities    // of the nodes that vote, as far as the holder knows them
	Advertise   string        // the address at which the leader can be reached
	Token       uint64        // what the node granted, or the quorum agreed on; 0: not known
}

func (b LockValue) String() string {
	all := make([]byte, 0, len(b.Candidate)+len(b.Incarnation)+len(b.Identities)+len(b.Advertise)+110)
	all = append(append(append(append(all, b.Candidate...), '/'), b.Incarnation...), '/')
	all = strconv.AppendUint(all, b.Seq, 10)
	all = strconv.AppendInt(append(all, " n="...), int64(b.Nodes), 10)
	all = strconv.AppendInt(append(all, " lease="...), b.Lease.Milliseconds(), 10)
	all = append(append(all, " v="...), version[:len(version)-1]...)
	if !b.Since.IsZero() {
		all = strconv.AppendInt(append(all, " since="...), b.Since.UnixMilli(), 10)
	}
	if b.Identities != "" {
		all = append(append(all, " ids="...), b.Identities...)
	}
	if b.Advertise != "" {
		all = append(append(all, " addr="...), b.Advertise...)
	}
	if b.Token != 0 {
		all = strconv.AppendUint(append(all, " token="...), b.Token, 10) // last: the claim script appends it
	}
	return string(all)
}

// ParseLockValue parses a lock value. A value of another origin (a manual SET, the lock
// of another program under our key) is an error, which shows it; that of an OtherVersion has only the candidate.
func ParseLockValue(s string) (LockValue, error) {
	b, err := parseLockValue(s)
	if other := OtherVersion(0); errors.As(err, &other) {
		return LockValue{Candidate: b.Candidate}, fmt.Errorf("%s holds the lock with %w", b.Candidate, err)
	}
	if err != nil {
		return LockValue{}, fmt.Errorf("lock value %.200q is not one of ours: %w", s, err)
	}
	return b, nil
}

func parseLockValue(s string) (b LockValue, err error) {
	who, rest, _ := strings.Cut(s, " ")
	i := strings.LastIndexByte(who, '/')
	j := -1
	if i > 0 {
		j = strings.LastIndexByte(who[:i], '/')
	}
	if j < 1 {
		return b, errors.New("it does not start with <candidate>/<incarnation>/<seq>")
	}
	b.Candidate, b.Incarnation = who[:j], who[j+1:i]
	if b.Seq, err = strconv.ParseUint(who[i+1:], 10, 64); err != nil {
		return b, errors.New("its seq is not a number")
	}
	if !isAlnum(b.Incarnation) {
		return b, errors.New("its incarnation is not made of letters and digits")
	}
	if v := versionIn(rest); v != Version {
		return b, OtherVersion(v)
	}
	for field := range strings.FieldsSeq(rest) {
		key, val, _ := strings.Cut(field, "=")
		switch key {
		case "n":
			if b.Nodes, err = strconv.Atoi(val); err != nil || b.Nodes < 1 {
				return b, errors.New("its n is not a positive number")
			}
		case "lease":
			ms, err := strconv.ParseInt(val, 10, 64)
			if err != nil || ms < 1 || ms > int64(1<<53)/int64(time.Millisecond) {
				return b, errors.New("its lease is not a number of milliseconds")
			}
			b.Lease = time.Duration(ms) * time.Millisecond
		case "since":
			ms, err := strconv.ParseInt(val, 10, 64)
			if err != nil {
				return b, errors.New("its since is not a number of milliseconds")
			}
			b.Since = time.UnixMilli(ms)
		case "ids":
			b.Identities = parseIdentities(val)
		case "addr":
			b.Advertise = val
		case "token":
			if b.Token, err = strconv.ParseUint(val, 10, 64); err != nil {
				return b, errors.New("its token is not a number")
			}
		} // other fields are of a later version
	}
	if b.Nodes == 0 || b.Lease == 0 {
		return b, errors.New("n or lease is missing")
	}
	return b, nil
}

// versionIn returns the protocol that the fields of a lock name, -1 if it is no number. It is looked for first: any other
// field may have another form there.
func versionIn(fields string) int {
	for field := range strings.FieldsSeq(fields) {
		val, ok := strings.CutPrefix(field, "v=")
		if v, err := strconv.Atoi(val); ok && err == nil {
			return v
		} else if ok {
			return -1
		}
	}
	return Version
}

// Differs returns in what the holder of a lock differs from a candidate so that both could lead; "": in nothing.
// n, lease and ids are the number of the candidate's nodes, its lease, and the identities of its nodes, as far as
// they are known.
func (b LockValue) Differs(n int, lease time.Duration, ids []string) string {
	switch {
	case b.Nodes != n:
		return fmt.Sprintf("counts %d Redis nodes, this candidate %d", b.Nodes, n)
	case b.Lease != lease:
		return fmt.Sprintf("uses a lease of %v, this candidate %v", b.Lease, lease)
	case b.Identities.Differ(ids, n):
		return "votes with other Redis nodes than this candidate"
	}
	return ""
}

// Majority returns how many of n nodes must agree.
func Majority(n int) int { return n/2 + 1 }

// Lock is a lock on one node.
type Lock struct {
	Value string
	Left  time.Duration // how long it still lives
}

// Holder is the attempt that holds the lock on a majority of the nodes.
type Holder struct {
	Attempt string // <candidate>/<incarnation>/<seq>; of a foreign lock its whole value
	LockValue
	Left        time.Duration // for how long it still holds a majority
	TokenAgreed bool          // all nodes that the attempt holds name the same token
	Lowest      uint64        // the lowest token on these nodes; it may be the term's
}

// HolderOf returns the attempt that holds a majority of these locks; ok is false if none does. Its
// token is the one on a majority of the nodes: until the first renewal, a late grant may name another.
// If no token has a majority, it is the highest, on which the nodes are about to agree.
func HolderOf(locks []Lock, majority int) (in Holder, ok bool) {
	values, attempts, held := make([]LockValue, len(locks)), make([]string, len(locks)), map[string]int{}
	for i, l := range locks {
		values[i], attempts[i] = AttemptOf(l.Value)
		if held[attempts[i]]++; held[attempts[i]] == majority {
			in, ok = Holder{Attempt: attempts[i], LockValue: values[i]}, true
		}
	}
	if !ok {
		return Holder{}, false
	}
	var left []time.Duration
	tokens := map[uint64]int{}
	for i, l := range locks {
		if attempts[i] == in.Attempt {
			left = append(left, l.Left)
			tokens[values[i].Token]++
		}
	}
	slices.Sort(left)
	in.Left = left[len(left)-majority]
	all := slices.Sorted(maps.Keys(tokens))
	in.Token, in.Lowest, in.TokenAgreed = all[len(all)-1], all[0], len(all) == 1
	for token, n := range tokens {
		if n >= majority {
			in.Token = token
		}
	}
	return in, true
}

// AttemptOf returns a lock value and its attempt, <candidate>/<incarnation>/<seq>. For
// another program's lock under our key, the whole value is both candidate and attempt.
func AttemptOf(value string) (LockValue, string) {
	b, err := ParseLockValue(value)
	if err != nil {
		return LockValue{Candidate: value}, value
	}
	attempt, _, _ := strings.Cut(value, " ")
	return b, attempt
}

// Conflict describes two of these locks that were written with different lists of
// nodes, so that both holders may lead; empty: there are none.
func Conflict(locks []Lock) string {
	var all []LockValue
	for _, l := range locks {
		if b, err := ParseLockValue(l.Value); err == nil {
			all = append(all, b)
		}
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if a.Incarnation == b.Incarnation {
				continue
			}
			if a.Nodes != b.Nodes || a.Identities.Differ(b.Identities.Known(), a.Nodes) {
				return fmt.Sprintf("%s and %s hold locks here, and vote with different nodes: both may lead", b.Candidate, a.Candidate)
			}
		}
	}
	return ""
}

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

func isAlnum(s string) bool {
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return s != ""
}
