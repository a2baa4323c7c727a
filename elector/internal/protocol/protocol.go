// Package protocol defines what candidates, nodes and operators share: the names of keys and
// channels, the scripts with which a node votes and their answers, the lock value, and the marks
// that operators leave. It does no I/O.
package protocol

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Keys holds the names of all keys and channels of an election. The braces in them
// make Redis Cluster put them all into one slot.
type Keys struct {
	Lock, Fence, New, Pause, Heir, ID, History string // keys
	Events, Wake, Ask, Roll                    string // channels
}

// KeysOf returns the keys of an election under a prefix.
func KeysOf(prefix, election string) Keys {
	names := [...]string{LockKey, FenceKey, "new", "next", PauseKey, "id", "history", "events", "wake", "ask", RollName}
	p := prefix + OpenTag + election + CloseTag
	all := p + strings.Join(names[:], p)
	var k [len(names)]string // next to each other in memory, the keys of a renewal first
	for i, name := range names {
		k[i], all = all[:len(p)+len(name)], all[len(p)+len(name):]
	}
	return Keys{
		Lock: k[0], Fence: k[1], New: k[2], Heir: k[3], Pause: k[4], ID: k[5],
		History: k[6], Events: k[7], Wake: k[8], Ask: k[9], Roll: k[10],
	}
}

// GroupKey returns the key with the settings of a group of shards. No election may have the name of
// a group: its counter would be next to that key, and members that find a counter without settings
// end. Nor may it have the name of a shard's election: it would hold that shard's lock.
func GroupKey(prefix, group string) string { return prefix + OpenTag + group + CloseTag + groupKey }

// Prefix returns the prefix that was given to KeysOf.
func (k Keys) Prefix() string {
	prefix, _, _ := strings.Cut(k.Lock, OpenTag)
	return prefix
}

// The parts of a key. An election that a node knows has a counter there (FenceKey), or a pause that
// was requested before its first leader. An election with candidates has subscribers of its roll
// calls.
const (
	OpenTag  = ":{"
	CloseTag = "}:"
	LockKey  = "lock"
	FenceKey = "fence"
	PauseKey = "pause"
	groupKey = "group"
	RollName = "roll"
)

// Reply returns the channel for the answers to a request that is published on a channel.
func Reply(channel, nonce string) string { return channel + ":" + nonce }

// ClaimKeys returns the keys of ClaimScript, in its order.
func (k Keys) ClaimKeys() []string {
	return []string{k.Lock, k.Fence, k.New, k.Pause, k.Heir, k.ID}
}

// RenewKeys returns the keys of RenewScript, in its order.
func (k Keys) RenewKeys() []string {
	return []string{k.Lock, k.Fence, k.New, k.Heir, k.Pause, k.ID}
}

// RaiseKeys returns the keys of RaiseScript, in its order.
func (k Keys) RaiseKeys() []string { return []string{k.Lock, k.Fence} }

// ReleaseKeys returns the keys of ReleaseScript, in its order.
func (k Keys) ReleaseKeys() []string { return []string{k.Lock, k.Fence, k.New, k.Heir} }

// AnnounceKeys returns the key of AnnounceScript.
func (k Keys) AnnounceKeys() []string { return []string{k.History} }

// FrontRow is how many followers subscribe to the wake channel of a node. Redis
// writes a message to all subscribers before it reads the next claim, so a
// release is first published to a few.
const FrontRow = 8

// MaxEntries is how many events the history stream keeps, approximately.
const MaxEntries = 1000

// WholeHistory is a count that covers the whole stream: Redis trims it a hundred entries at a time.
const WholeHistory = MaxEntries + 200

// reserved precedes the incarnation of an heir for which a node refuses all other
// candidates. Without it, the value only hints which candidate should claim first.
const reserved = "!"

// Reservation returns how a node writes that leadership is reserved for an incarnation.
func Reservation(incarnation string) string { return reserved + incarnation }

// IsReservation reports whether first reserves leadership rather than being only a hint.
func IsReservation(first string) bool { return strings.HasPrefix(first, reserved) }

// The messages on the wake channel are short, for the few followers that must be fast:
// "released <token> <who goes first>", from the release script, and "elected <token>".
const (
	released = "released "
	elected  = "elected "
)

// scriptFacts declares the constants that the scripts share with Go.
var scriptFacts = fmt.Sprintf("local RESERVED, RELEASED = %q, %q\n", reserved, released)

// WakeMessage is a message on the wake channel.
type WakeMessage struct {
	Elected bool // a new leader was elected; false: a term has ended
	Token   uint64
	First   string // when a term ended: the incarnation that goes first, or a Reservation; may be empty
}

func (m WakeMessage) String() string {
	token := strconv.FormatUint(m.Token, 10)
	if m.Elected {
		return elected + token
	}
	return released + token + " " + m.First
}

// ParseWakeMessage parses a message; ok is false if it is not one of ours. Anyone
// with the right to publish can send one.
func ParseWakeMessage(payload string) (m WakeMessage, ok bool) {
	number, isElected := strings.CutPrefix(payload, elected)
	m.Elected = isElected
	if !m.Elected {
		if number, ok = strings.CutPrefix(payload, released); !ok {
			return WakeMessage{}, false
		}
		number, m.First, _ = strings.Cut(number, " ")
	}
	token, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return WakeMessage{}, false
	}
	m.Token = token
	return m, true
}

// Heir names the candidate that goes first after this term, and for how long leadership
// is kept for it. The zero value names no candidate.
type Heir struct {
	Incarnation string
	Keep        time.Duration
}
