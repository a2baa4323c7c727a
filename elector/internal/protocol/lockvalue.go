package protocol

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LockValue is the value of the lock key: who holds it, by which attempt, and
// under which settings. It is written as one readable line:
//
//	<candidate>/<incarnation>/<seq> n=<nodes> lease=<ms>[ ids=<identities>][ addr=<advertised>] token=<token>
type LockValue struct {
	Candidate   string        // the candidate's id
	Incarnation string        // random per Elector: distinguishes two processes of one id
	Seq         uint64        // counts the attempts of an incarnation
	Nodes       int           // how many nodes vote, as the holder believes
	Lease       time.Duration // whole milliseconds
	Identities  Identities    // of the nodes that vote, as far as the holder knows them
	Advertise   string        // where the leader can be reached, as it advertises it
	Token       uint64        // what the node granted, or the quorum agreed on; 0: not known
}

func (b LockValue) String() string {
	all := make([]byte, 0, len(b.Candidate)+len(b.Incarnation)+len(b.Identities)+len(b.Advertise)+90)
	all = append(append(append(append(all, b.Candidate...), '/'), b.Incarnation...), '/')
	all = strconv.AppendUint(all, b.Seq, 10)
	all = strconv.AppendInt(append(all, " n="...), int64(b.Nodes), 10)
	all = strconv.AppendInt(append(all, " lease="...), b.Lease.Milliseconds(), 10)
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

// ParseLockValue reads a lock value. A value of another origin (a hand-made SET, a
// lock of another program under our key) is an error that shows it.
func ParseLockValue(s string) (LockValue, error) {
	b, err := parseLockValue(s)
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
		case "ids":
			b.Identities = parseIdentities(val)
		case "addr":
			b.Advertise = val
		case "token":
			if b.Token, err = strconv.ParseUint(val, 10, 64); err != nil {
				return b, errors.New("its token is not a number")
			}
		} // others: a later version's
	}
	if b.Nodes == 0 || b.Lease == 0 {
		return b, errors.New("n or lease is missing")
	}
	return b, nil
}

// Holder is who holds the lock of a majority of the nodes.
type Holder struct {
	Attempt string // <candidate>/<incarnation>/<seq>; a foreign value as it is
	LockValue
	Agreed bool // all nodes that it holds name this token
	// Placed: a majority names this address. While a renewal brings another one to the
	// nodes none may.
	Placed bool
	Lowest uint64 // the lowest token that a node names: the term's may be this one
}

// HolderOf finds the attempt that holds a majority of the locks, whose values
// these are; ok is false when none does. Its token is the one on a majority of
// the nodes. Until the first renewal a late grant may name another one; and where
// none has a majority the highest stands for what is being agreed on. Its address is the
// one on a majority, too, and any of them where none has one.
func HolderOf(values []string, majority int) (in Holder, ok bool) {
	if len(values) >= majority && !slices.ContainsFunc(values, func(v string) bool { return v != values[0] }) { // as nearly always
		b, attempt := AttemptOf(values[0])
		return Holder{Attempt: attempt, LockValue: b, Agreed: true, Placed: true, Lowest: b.Token}, true
	}
	votes, tokens := map[string]int{}, map[string]map[uint64]int{}
	addresses := map[[2]string]int{} // by attempt and address
	for _, value := range values {
		b, attempt := AttemptOf(value)
		if votes[attempt]++; votes[attempt] == 1 {
			tokens[attempt] = map[uint64]int{}
		}
		tokens[attempt][b.Token]++
		addresses[[2]string{attempt, b.Advertise}]++
		if votes[attempt] == majority {
			in, ok = Holder{Attempt: attempt, LockValue: b}, true
		}
	}
	for of, n := range addresses {
		if of[0] == in.Attempt && n >= majority {
			in.Advertise, in.Placed = of[1], true
		}
	}
	in.Token, in.Lowest, in.Agreed = 0, math.MaxUint64, len(tokens[in.Attempt]) == 1
	decided := false
	for token, n := range tokens[in.Attempt] {
		in.Lowest = min(in.Lowest, token)
		switch {
		case decided:
		case n >= majority:
			in.Token, decided = token, true
		default:
			in.Token = max(in.Token, token)
		}
	}
	return in, ok
}

// Holds reports whether a lock value is of this attempt.
func (in Holder) Holds(value string) bool {
	_, attempt := AttemptOf(value)
	return value != "" && attempt == in.Attempt
}

// AttemptOf reads a lock value as it comes. Another program's lock under our key
// is shown as it is.
func AttemptOf(value string) (LockValue, string) {
	b, err := ParseLockValue(value)
	if err != nil {
		return LockValue{Candidate: value}, value
	}
	attempt, _, _ := strings.Cut(value, " ")
	return b, attempt
}

// Conflict is what is wrong when these lock values stand on the nodes of one election:
// two that were written with other settings. Each of them may be a leader's.
func Conflict(values []string) string {
	var all []LockValue
	for _, value := range values {
		if b, err := ParseLockValue(value); err == nil {
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
