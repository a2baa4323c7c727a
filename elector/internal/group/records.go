package group

import (
	"bytes"
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
	Shards   int   `json:"shards"`
	LeaseMS  int64 `json:"lease_ms"`
	Protocol int   `json:"v"`
}

// NewSettings returns the settings of a group with so many shards.
func NewSettings(shards int, lease time.Duration) Settings {
	return Settings{Shards: shards, LeaseMS: lease.Milliseconds(), Protocol: protocol.Version}
}

// Lease returns the lease of each shard.
func (f Settings) Lease() time.Duration { return time.Duration(f.LeaseMS) * time.Millisecond }

func (f Settings) String() string {
	text := fmt.Sprintf("%d shards and a lease of %v", f.Shards, f.Lease())
	if f.Protocol != protocol.Version {
		text += fmt.Sprintf(" in protocol %d, and this program has protocol %d", f.Protocol, protocol.Version)
	}
	return text
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

// parseMember returns false if the record is invalid, or not that of the incarnation.
func parseMember(s, incarnation string) (m Member, ok bool) {
	if len(s) > maxRecord || json.Unmarshal([]byte(s), &m) != nil {
		return Member{}, false
	}
	if m.ID == "" || m.Incarnation == "" || m.Incarnation != incarnation || !(m.Weight > 0) || math.IsInf(m.Weight, 0) {
		return Member{}, false
	}
	m.ID, m.Incarnation = protocol.Clip(m.ID, protocol.MaxName), protocol.Clip(m.Incarnation, 64)
	m.Advertise, m.Host = protocol.Clip(m.Advertise, protocol.MaxAdvertise), protocol.Clip(m.Host, protocol.MaxAdvertise)
	m.Version, m.Closed = protocol.Clip(m.Version, protocol.MaxAdvertise), protocol.Clip(m.Closed, protocol.MaxDetail)
	return m, true
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
func (p *Plan) Equal(o *Plan) bool { return bytes.Equal(protocol.Encode(p), protocol.Encode(o)) }

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

// MaxShards bounds the shards in what other processes may have written.
const MaxShards = protocol.MaxShards

// Set is a set of shards, in ascending order. Its text form is short and readable: "0-3,7".
type Set []int

// MarshalJSON encodes the set in its text form.
func (s Set) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

func (s Set) String() string {
	var b strings.Builder
	for i := 0; i < len(s); {
		j := i
		for j+1 < len(s) && s[j+1] == s[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(s[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(s[j]))
		}
		i = j + 1
	}
	return b.String()
}

// UnmarshalJSON decodes the text form. It refuses shards beyond MaxShards, so that a few bytes
// can't become a list that fills the memory.
func (s *Set) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	all := Set{}
	if *s = all; text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from < 0 || to < from || to >= MaxShards || len(all) > 0 && from <= all[len(all)-1] {
			return errors.New("no list of shards")
		}
		for i := from; i <= to; i++ {
			all = append(all, i)
		}
	}
	*s = all
	return nil
}

// Has reports whether a shard is in the set.
func (s Set) Has(shard int) bool {
	_, ok := slices.BinarySearch(s, shard)
	return ok
}
