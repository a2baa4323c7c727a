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

// Version is the number of the protocol, in each lock value and in each message. A program that meets
// another number does not act on what it may misunderstand, and says which number it has met.
const Version = 1

// OtherVersion is the error of what a program with another protocol has written.
type OtherVersion int

func (v OtherVersion) Error() string {
	return fmt.Sprintf("protocol %d, and this program has protocol %d", int(v), Version)
}

// Keys holds the names of all keys and channels of an election. The braces in them
// make Redis Cluster put them all into one slot.
type Keys struct {
	Lock, Fence, New, Pause, Heir, ID, History string // keys
	Events, Ask, Roll                          string // channels

	Election string // the name
	Names    string // the key with the names of all elections of the prefix, in a slot of its own
}

// KeysOf returns the keys of an election under a prefix.
func KeysOf(prefix, election string) Keys {
	names := [...]string{LockKey, FenceKey, "new", "next", PauseKey, "id", "history", "events", "ask", RollName}
	p := prefix + OpenTag + election + CloseTag
	all := p + strings.Join(names[:], p)
	var k [len(names)]string // next to each other in memory, the keys of a renewal first
	for i, name := range names {
		k[i], all = all[:len(p)+len(name)], all[len(p)+len(name):]
	}
	return Keys{
		Lock: k[0], Fence: k[1], New: k[2], Heir: k[3], Pause: k[4], ID: k[5],
		History: k[6], Events: k[7], Ask: k[8], Roll: k[9],
		Election: election, Names: NamesKey(prefix),
	}
}

// In returns the keys with the channels of a database of the server (see ChannelIn).
func (k Keys) In(database string) Keys {
	k.Events, k.Ask, k.Roll = ChannelIn(k.Events, database), ChannelIn(k.Ask, database), ChannelIn(k.Roll, database)
	return k
}

// ChannelIn returns the name of a channel in a database of the server; "": in database 0. Keys belong to
// databases, and channels do not: without this, an election would receive the messages of one with the same
// name in another database. No election's name contains a blank.
func ChannelIn(channel, database string) string {
	if database == "" {
		return channel
	}
	name, kind, _ := strings.Cut(channel, CloseTag)
	return name + databaseTag + database + CloseTag + kind
}

const databaseTag = " db="

// MaxShards is the maximum number of shards of a group.
const MaxShards = 16384

// ofGroup separates the name of a group of shards from what is added to it for the names of its elections. No
// name that a user chooses, of a group or of another election, may contain it, so they never meet.
const (
	ofGroup      = "#"
	assignerName = "assigner"
)

// ElectionOfShard returns the name of the election that decides which member owns a shard.
func ElectionOfShard(group string, shard int) string {
	return group + ofGroup + strconv.Itoa(shard)
}

// ElectionOfAssigner returns the name of the election for a group's assigner.
func ElectionOfAssigner(group string) string { return group + ofGroup + assignerName }

// ShardOf returns the group and the shard whose election has that name.
func ShardOf(election string) (group string, shard int, is bool) {
	group, number, _ := strings.Cut(election, ofGroup)
	n, err := strconv.Atoi(number)
	if group == "" || err != nil || n < 0 || n >= MaxShards || strconv.Itoa(n) != number {
		return "", 0, false
	}
	return group, n, true
}

// OfGroup reports whether only the members of a group of shards may campaign in an election of that name.
func OfGroup(election string) bool { return strings.Contains(election, ofGroup) }

// CheckGroup returns an error unless a group can have that name.
func CheckGroup(name string) error {
	const longest = MaxName - 20 // leaves room for the shard number in the name of a shard's election
	return CheckWord("Group", name, longest, "{}"+ofGroup)
}

// NamesKey returns the key of the sorted set with the names of all elections of a prefix, by the time of
// their last event.
func NamesKey(prefix string) string { return prefix + ":elections" }

// Prefix returns the prefix that was given to KeysOf.
func (k Keys) Prefix() string {
	prefix, _, _ := strings.Cut(k.Lock, OpenTag)
	return prefix
}

// Check returns the key that doctor, and operators' trial writes, use: in the slot of the election, and
// within the rights of its candidates.
func (k Keys) Check() string { return strings.TrimSuffix(k.Lock, LockKey) + "check" }

// Jobs returns the key of package fence with the names of the jobs whose ticks it keeps.
func (k Keys) Jobs() string { return strings.TrimSuffix(k.Lock, LockKey) + "jobs" }

// The parts of a key. An election that a node knows has a counter there (FenceKey), or a pause that
// was requested before its first leader. An election with candidates has subscribers of its roll
// calls.
const (
	OpenTag  = ":{"
	CloseTag = "}:"
	LockKey  = "lock"
	FenceKey = "fence"
	PauseKey = "pause"
	RollName = "roll"
)

// Reply returns the channel for the answers to a request that is published on a channel.
func Reply(channel, nonce string) string { return channel + ":" + nonce }

// Echo returns the channel on which a process receives what it publishes itself, in the same election as one of
// the channels that it subscribes to. It is named as a channel for the answers to a roll call: whoever may
// subscribe to anything, also a user who only reads, may subscribe to those (docs/redis.md).
func Echo(channel, nonce string) string {
	election, _, _ := strings.Cut(channel, CloseTag)
	return Reply(election+CloseTag+RollName, nonce)
}

// KeptFor is how long the name and the history of an election are kept after its last event. Its
// counter and the nodes' identities stay.
const KeptFor = 30 * 24 * time.Hour

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

// The kinds of messages on the events channel that followers act on.
const (
	KindElected  = "elected"
	KindReleased = "released"
)

// Message is a message on the events channel: "<protocol> <kind> <token> <who claims first> <event as JSON>".
// Followers need no more than the beginning, and have no time to parse the event.
type Message struct {
	Version int    // of the protocol; of any other than ours nothing else is known
	Kind    string // of the event
	Token   uint64
	First   string // of KindReleased: the incarnation that goes first, or a Reservation; may be empty
	Event   string
}

// Head returns what precedes the event.
func (m Message) Head() string {
	return version + m.Kind + " " + strconv.FormatUint(m.Token, 10) + " " + m.First + " "
}

// ParseMessage parses a message; ok is false if it is not one of ours. Anyone with the right to
// publish can send one.
func ParseMessage(payload string) (m Message, ok bool) {
	number, rest, _ := strings.Cut(payload, " ")
	v, err := strconv.ParseUint(number, 10, 16)
	if err != nil || v != Version {
		return Message{Version: int(v)}, false
	}
	fields := strings.SplitN(rest, " ", 4)
	if len(fields) < 4 {
		return Message{}, false
	}
	token, err := strconv.ParseUint(fields[1], 10, 64)
	return Message{Version, fields[0], token, fields[2], fields[3]}, err == nil
}

// version begins each message on the events channel.
var version = strconv.Itoa(Version) + " "

// scriptFacts declares the constants that the scripts share with Go.
var scriptFacts = fmt.Sprintf("local RESERVED, RELEASED, MAX_ENTRIES, KEPT_FOR = %q, %q, %d, %d\n", reserved, version+KindReleased, MaxEntries, KeptFor.Milliseconds())

// Heir names the candidate that goes first after this term, and for how long leadership
// is kept for it. The zero value names no candidate.
type Heir struct {
	Incarnation string
	Keep        time.Duration
}
