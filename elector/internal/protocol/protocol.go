// Package protocol has the facts that candidates, nodes and operators share, each once: the names of keys and
// channels, the scripts by which a node votes and what they answer, the lock's value, and the marks that
// operators leave. It does no I/O.
package protocol

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Keys are the names of everything an election keeps in Redis. The braces make
// Redis Cluster put them all into one slot.
type Keys struct {
	Lock, Fence, New, Pause, Heir, ID, Version, History string // keys
	Events, Wake, Ask, Roll                             string // channels
}

// KeysOf names the keys of an election under a prefix.
func KeysOf(prefix, election string) Keys {
	names := [...]string{LockKey, FenceKey, "new", "next", PauseKey, "id", "version", "history", "events", "wake", "ask", RollName}
	p := prefix + OpenTag + election + CloseTag
	all := p + strings.Join(names[:], p)
	var k [len(names)]string // beside each other in memory: those that a renewal names first
	for i, name := range names {
		k[i], all = all[:len(p)+len(name)], all[len(p)+len(name):]
	}
	return Keys{
		Lock: k[0], Fence: k[1], New: k[2], Heir: k[3], Pause: k[4], ID: k[5], Version: k[6],
		History: k[7], Events: k[8], Wake: k[9], Ask: k[10], Roll: k[11],
	}
}

// KeysOfCordons has the history of what operators cordoned, drained and uncordoned under a prefix.
// It is that of an election without a name, which no candidate can have: so the rights to the
// histories of elections suffice, and no list takes it for an election.
func KeysOfCordons(prefix string) Keys { return KeysOf(prefix, "") }

// GroupKey is the key with the settings of a group of shards. No election may have the name of a
// group: its counter, beside that key, makes the group's members end when they find it without the
// settings. Nor may one have the name of a shard's election: it would hold that shard's lock.
func GroupKey(prefix, group string) string { return prefix + OpenTag + group + CloseTag + groupKey }

// Prefix is that of KeysOf.
func (k Keys) Prefix() string {
	prefix, _, _ := strings.Cut(k.Lock, OpenTag)
	return prefix
}

// The parts of a key. An election that a node knows has a counter there, or a pause that was
// requested before its first leader; one that has candidates has subscribers of its roll calls.
const (
	OpenTag  = ":{"
	CloseTag = "}:"
	LockKey  = "lock"
	FenceKey = "fence"
	PauseKey = "pause"
	groupKey = "group"
	RollName = "roll"
)

// Reply is the channel on which answers to a request on a channel are published.
func Reply(channel, nonce string) string { return channel + ":" + nonce }

// ForClaim and the like are the keys of each script, in its order.
func (k Keys) ForClaim() []string {
	return []string{k.Lock, k.Fence, k.New, k.Pause, k.Heir, k.ID, k.Version}
}

// ForRenew is of the renewal.
func (k Keys) ForRenew() []string {
	return []string{k.Lock, k.Fence, k.New, k.Heir, k.Pause, k.ID, k.Version}
}

// ForRaise is of what makes the tokens of a claim agree.
func (k Keys) ForRaise() []string { return []string{k.Lock, k.Fence} }

// ForRelease is of the release.
func (k Keys) ForRelease() []string { return []string{k.Lock, k.Fence, k.New, k.Heir} }

// ForAnnounce is of a report.
func (k Keys) ForAnnounce() []string { return []string{k.History} }

// ForForget is all that an election keeps.
func (k Keys) ForForget() []string {
	return []string{k.Lock, k.Fence, k.New, k.Pause, k.Heir, k.ID, k.History, k.Version}
}

// FrontRow is how many waiters listen on the wake channel of a node. Redis
// writes a message to all its subscribers before it reads the next claim, so a
// release is published to a few first.
const FrontRow = 8

// MaxEntries is how many events the history stream keeps, about.
const MaxEntries = 1000

// WholeHistory is more entries than that: Redis trims the stream by the hundred.
const WholeHistory = MaxEntries + 200

// reserved stands before the incarnation of the heir for which a node refuses all
// others. Without it the name is that of the first to try: a hint.
const reserved = "!"

// Reservation is how a node writes that leadership is reserved for an incarnation.
func Reservation(incarnation string) string { return reserved + incarnation }

// IsReservation reports whether first reserves leadership, and is no mere hint.
func IsReservation(first string) bool { return strings.HasPrefix(first, reserved) }

// Messages on the wake channel are short words for the few that must be fast:
// "released <token> <who goes first>", from the release script, and "elected <token>".
const (
	released = "released "
	elected  = "elected "
)

// allowed begins the value of the version's key where an operator lets older versions lead: renewals
// leave it alone. A value that is longer than any of ours is no value.
const (
	allowed    = "{"
	maxHighest = 4096
)

// AsShown is what the renewal script answers for a lease that it has renewed where nothing is worth a word: the
// node's counter and identity are those that the request named. A process with thousands of elections gets little else.
// No other server answers that by habit, and Go makes an interface of a number below 256 without an allocation.
const AsShown = 201

// scriptFacts declares to the scripts what they share with Go.
var scriptFacts = fmt.Sprintf("local RESERVED, RELEASED, ALLOWED, MAX_HIGHEST, AS_SHOWN = %q, %q, %q, %d, %d\n", reserved, released, allowed, maxHighest, AsShown)

// WakeMessage is a message on the wake channel.
type WakeMessage struct {
	Elected bool // a new leader; else the end of a term
	Token   uint64
	First   string // of an end: the incarnation that goes first, or a Reservation for it; may be empty
}

func (m WakeMessage) String() string {
	token := strconv.FormatUint(m.Token, 10)
	if m.Elected {
		return elected + token
	}
	return released + token + " " + m.First
}

// ParseWakeMessage reads a message; false when it is none of ours. Anyone who may
// publish can write one.
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

// Heir is who goes first after this term, and for how long the others wait for
// it. The zero value: no candidate in particular.
type Heir struct {
	Incarnation string
	Keep        time.Duration
}
