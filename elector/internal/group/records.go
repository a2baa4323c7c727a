package group

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Bounds of what others may have written.
const (
	maxMembers = 4096
	maxRecord  = 1 << 20 // bytes of a record or a plan
)

// Settings are what all members of a group must agree on. They change in one way only, by
// growth: {64} becomes {128 from 64}, and when no shard is owned as one of 64 any more, {128}.
type Settings struct {
	Shards int
	Lease  time.Duration
	From   int    // the group grows from that many shards; 0: it does not grow
	Floor  uint64 // tokens of its shards are above it: that of the last term before it has grown
}

// After reports whether f is what a group with the settings o can become.
func (f Settings) After(o Settings) bool {
	return f.Shards > o.Shards || f.Shards == o.Shards && o.From > 0 && f.From == 0
}

func (f Settings) String() string {
	return fmt.Sprintf("%d shards and a lease of %v", f.Shards, f.Lease)
}

type settingsJSON struct {
	Version int    `json:"v"`
	Shards  int    `json:"shards"`
	LeaseMs int64  `json:"lease_ms"`
	From    int    `json:"from,omitempty"`
	Floor   uint64 `json:"floor,omitempty"`
}

const settingsVersion = 1

func (f Settings) encode() string {
	return encode(settingsJSON{Version: settingsVersion, Shards: f.Shards, LeaseMs: f.Lease.Milliseconds(), From: f.From, Floor: f.Floor})
}

func parseSettings(s string) (Settings, error) {
	var j settingsJSON
	if err := json.Unmarshal([]byte(s), &j); err != nil || j.Version < 1 || j.Shards < 1 || j.Shards > MaxShards ||
		j.From < 0 || j.From >= j.Shards || j.From > 0 && j.Shards%j.From != 0 {
		return Settings{}, fmt.Errorf("holds %.100q, which no member wrote: delete it", s)
	}
	return Settings{Shards: j.Shards, Lease: time.Duration(j.LeaseMs) * time.Millisecond, From: j.From, Floor: j.Floor}, nil
}

// Member is what a member publishes of itself.
type Member struct {
	ID          string  `json:"id"`
	Incarnation string  `json:"incarnation"`
	Advertise   string  `json:"advertise,omitempty"`
	Version     string  `json:"version,omitempty"`
	Host        string  `json:"host,omitempty"`
	PID         int     `json:"pid,omitempty"`
	Weight      float64 `json:"weight"`
	Shards      int     `json:"shards,omitempty"` // that it is configured for
	Closed      bool    `json:"closed,omitempty"` // wants no shard: it stops, or is not healthy
	Why         string  `json:"why,omitempty"`    // of closed
	// Cordoned is why it wants no shard beside those that it owns; empty: it does.
	Cordoned string          `json:"cordoned,omitempty"`
	Owned    Set             `json:"owned"`
	Unable   Set             `json:"unable"`          // shards that it can't serve for now
	Loads    map[int]float64 `json:"loads,omitempty"` // of those that it owns
	Ready    map[int]string  `json:"ready,omitempty"` // shards that it campaigns for, with its incarnation there
	Seq      uint64          `json:"seq"`             // orders the records of a member
}

func (m Member) encode() string { return encode(m) }

func parseMember(s string) (m Member, err error) {
	if len(s) > maxRecord {
		return m, errors.New("a record that is too long to be a member's")
	}
	if err := json.Unmarshal([]byte(s), &m); err != nil {
		return Member{}, fmt.Errorf("no member's record: %w", err)
	}
	if m.ID == "" || m.Incarnation == "" || !(m.Weight > 0) || math.IsInf(m.Weight, 0) {
		return Member{}, errors.New("no member's record: without an id or a weight")
	}
	m.ID, m.Incarnation = protocol.Clip(m.ID, protocol.MaxName), protocol.Clip(m.Incarnation, 64)
	m.Advertise, m.Host = protocol.Clip(m.Advertise, protocol.MaxAdvertise), protocol.Clip(m.Host, protocol.MaxAdvertise)
	m.Version, m.Why = protocol.Clip(m.Version, protocol.MaxAdvertise), protocol.Clip(m.Why, protocol.MaxDetail)
	m.Cordoned = protocol.Clip(m.Cordoned, protocol.MaxDetail)
	return m, nil
}

// parseRecord reads what the scripts keep of a member, "<until, in ms> <record>"; false
// when its time has passed.
func parseRecord(s string, now time.Time) (Member, bool) {
	until, text, _ := strings.Cut(s, " ")
	ms, err := strconv.ParseInt(until, 10, 64)
	if err != nil || ms < now.UnixMilli() {
		return Member{}, false
	}
	m, err := parseMember(text)
	return m, err == nil
}

// Plan is who should own what.
type Plan struct {
	Version Version      `json:"-"`
	Shards  int          `json:"shards"`
	Members []PlanMember `json:"members"`
	Next    []Set        `json:"assigned"`         // by member: what it should own
	Owned   []Set        `json:"owned"`            // by member: what it did own as the plan was made
	Guests  Set          `json:"guests,omitempty"` // shards that are where they are because their member has gone
	// Heirs are the shards that their owner hands over now: to the candidate of that incarnation.
	Heirs map[int]string `json:"heirs,omitempty"`
	// Loads are those of the shards that move, as their last owners have measured them.
	Loads map[int]float64 `json:"loads,omitempty"`
}

// PlanMember is a member in a plan.
type PlanMember struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"`
	Advertise   string `json:"advertise,omitempty"`
	Closed      bool   `json:"closed,omitempty"`
}

// NoMember is the index of no member.
const NoMember = -1

// Assigned is by shard the member that should own it, or NoMember.
func (p *Plan) Assigned() []int { return p.byShard(p.Next) }

// Owners is by shard the member that owned it, or NoMember.
func (p *Plan) Owners() []int { return p.byShard(p.Owned) }

func (p *Plan) byShard(sets []Set) []int {
	all := make([]int, p.Shards)
	for s := range all {
		all[s] = NoMember
	}
	for m, set := range sets {
		for _, s := range set {
			if s < len(all) {
				all[s] = m
			}
		}
	}
	return all
}

func (p *Plan) encode() string { return encode(p) }

// parsePlan reads what a node holds as "<version> <plan>"; nil when it holds none of ours:
// the next plan of the assigner replaces it.
func parsePlan(s string) *Plan {
	if s == "" || len(s) > maxRecord {
		return nil
	}
	var version, rest string
	if n, err := fmt.Sscan(s, &version); n != 1 || err != nil {
		return nil
	}
	rest = s[len(version):]
	p := &Plan{Version: parseVersion(version)}
	if err := json.Unmarshal([]byte(rest), p); err != nil || p.Version == (Version{}) {
		return nil
	}
	if p.Shards < 1 || p.Shards > MaxShards || len(p.Members) > maxMembers || len(p.Next) != len(p.Members) || len(p.Owned) != len(p.Members) {
		return nil
	}
	return p
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // numbers that are finite, and strings
		panic("group: a record that can't be encoded: " + err.Error())
	}
	return string(b)
}

// word is one of the answers of a script.
func word(answer []any, i int) string {
	if i >= len(answer) {
		return ""
	}
	w, _ := answer[i].(string)
	return w
}
