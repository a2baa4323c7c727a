package group

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Bounds of what other processes may have written.
const (
	maxMembers = 4096
	maxRecord  = 1 << 20 // bytes of a record or a plan
)

// Settings are what all members of a group must agree on. The zero value: the node knows no group.
type Settings struct {
	Format  int   `json:"v"`
	Shards  int   `json:"shards"`
	LeaseMS int64 `json:"lease_ms"`
}

// NewSettings returns the settings of a group with so many shards.
func NewSettings(shards int, lease time.Duration) Settings {
	return Settings{Format: 1, Shards: shards, LeaseMS: lease.Milliseconds()}
}

// Lease returns the lease of each shard.
func (f Settings) Lease() time.Duration { return time.Duration(f.LeaseMS) * time.Millisecond }

func (f Settings) String() string {
	return fmt.Sprintf("%d shards and a lease of %v", f.Shards, f.Lease())
}

func parseSettings(s string) (f Settings, err error) {
	if err := json.Unmarshal([]byte(s), &f); err != nil || f.Format < 1 || f.Shards < 1 || f.Shards > MaxShards {
		return Settings{}, fmt.Errorf("holds %.100q, which no member wrote: delete it", s)
	}
	return f, nil
}

// Member is what a member publishes of itself.
type Member struct {
	ID          string         `json:"id"`
	Incarnation string         `json:"incarnation"`
	Advertise   string         `json:"advertise,omitempty"`
	Version     string         `json:"version,omitempty"`
	Host        string         `json:"host,omitempty"`
	PID         int            `json:"pid,omitempty"`
	Weight      float64        `json:"weight"`
	Closed      string         `json:"closed,omitempty"` // why it wants no shards: it stops, or is unhealthy; empty: it wants some
	Owned       Set            `json:"owned"`
	Unable      Set            `json:"unable"`          // shards that it can't serve for now
	Ready       map[int]string `json:"ready,omitempty"` // shards that it campaigns for, with its incarnation in each election
	Seq         uint64         `json:"seq"`             // orders the records of a member
}

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
	m.Version, m.Closed = protocol.Clip(m.Version, protocol.MaxAdvertise), protocol.Clip(m.Closed, protocol.MaxDetail)
	return m, nil
}

// parseRecord parses what the scripts keep of a member, "<until, in ms> <record>". It returns
// false if that time has passed, or if the record is invalid.
func parseRecord(s string, now time.Time) (Member, bool) {
	until, text, _ := strings.Cut(s, " ")
	ms, err := strconv.ParseInt(until, 10, 64)
	if err != nil || ms < now.UnixMilli() {
		return Member{}, false
	}
	m, err := parseMember(text)
	return m, err == nil
}

// Version orders the plans of a group: by the term of the assigner that made them, and within
// a term by their sequence. The zero value is that of no plan.
type Version struct{ Token, Seq uint64 }

// After reports whether v is later than o.
func (v Version) After(o Version) bool {
	return v.Token > o.Token || v.Token == o.Token && v.Seq > o.Seq
}

func (v Version) String() string {
	if v == (Version{}) {
		return "" // as on a node without a plan
	}
	return fmt.Sprintf("%d.%d", v.Token, v.Seq)
}

func parseVersion(s string) Version {
	token, seq, _ := strings.Cut(s, ".")
	t, err := strconv.ParseUint(token, 10, 64)
	n, err2 := strconv.ParseUint(seq, 10, 64)
	if err != nil || err2 != nil {
		return Version{}
	}
	return Version{Token: t, Seq: n}
}

// Plan is the assignment of the shards to the members.
type Plan struct {
	Version Version    `json:"-"`
	Shards  int        `json:"shards"`
	Members []Assigned `json:"members"`
	Guests  Set        `json:"guests,omitempty"` // shards that are where they are because their member has gone
}

// Assigned is a member as it was when the plan was made, with the shards that it should own.
type Assigned struct {
	Member

	Planned Set `json:"planned"`
}

// Assignees returns, for each shard, the index of the member that should own it, or NoMember.
func (p *Plan) Assignees() []int {
	return byShard(p.Shards, p.Members, func(m Assigned) Set { return m.Planned })
}

// Owners returns, for each shard, the index of the member that owned it when the plan was made, or
// NoMember.
func (p *Plan) Owners() []int {
	return byShard(p.Shards, p.Members, func(m Assigned) Set { return m.Owned })
}

// Index returns the index of the member with that incarnation, or NoMember.
func (p *Plan) Index(incarnation string) int {
	return slices.IndexFunc(p.Members, func(m Assigned) bool { return m.Incarnation == incarnation })
}

// Equal reports whether two plans are the same but for their versions.
func (p *Plan) Equal(o *Plan) bool { return encode(p) == encode(o) }

// parsePlan parses what a node keeps, "<version> <plan>". It returns nil if that is not a valid
// plan: the assigner's next plan replaces it.
func parsePlan(s string) *Plan {
	if s == "" || len(s) > maxRecord {
		return nil
	}
	version, rest, _ := strings.Cut(s, " ")
	p := &Plan{Version: parseVersion(version)}
	if err := json.Unmarshal([]byte(rest), p); err != nil || p.Version == (Version{}) {
		return nil
	}
	if p.Shards < 1 || p.Shards > MaxShards || len(p.Members) > maxMembers {
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

// word returns string i of a script's answer; "" if there is none.
func word(answer []any, i int) string {
	if i >= len(answer) {
		return ""
	}
	w, _ := answer[i].(string)
	return w
}
