package shard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/setting"
)

// ErrNoGroup means that the group has no members: it has none yet, or all have been gone for two
// leases.
var ErrNoGroup = errors.New("shard: there is no such group")

// Status is the state of a group as its members report it.
type Status struct {
	Group    string         `json:"group"`              // its name
	Shards   int            `json:"shards"`             // how many it has
	Lease    time.Duration  `json:"-"`                  // of each shard
	Assigner string         `json:"assigner,omitempty"` // its id, also if it only may lead (elector.Status.MayLead); empty: none leads, or that could not be read
	Members  []MemberStatus `json:"members"`            // that are alive
	// Missing are the members that died or were cut off within the last ten minutes, without those whose id
	// another living member has.
	Missing []MissingMember `json:"missing"`
	Unowned []Vacancy       `json:"unowned"` // shards that no member reports as its own
	Moving  []int           `json:"moving"`  // shards that one member owns and that are planned for another one
	// Problems are the errors of single nodes. All other fields come from the remaining nodes.
	Problems []error `json:"-"`
}

// MemberStatus is one living member.
type MemberStatus struct {
	ID          string  `json:"id"`
	Incarnation string  `json:"incarnation"`         // distinguishes two members, or two lives, with one id
	Advertise   string  `json:"advertise,omitempty"` // where it can be reached, as configured
	Version     string  `json:"version,omitempty"`   // of its program
	Host        string  `json:"host,omitempty"`      // of its process
	PID         int     `json:"pid,omitempty"`       // of its process on Host
	Weight      float64 `json:"weight"`              // how much it should own relative to the others
	Closed      string  `json:"closed,omitempty"`    // why it wants no shards: stopping, unhealthy or cut off; empty: it wants some
	Owned       []int   `json:"owned"`               // shards that it owns
	Planned     []int   `json:"planned"`             // shards that it should own
	Unable      []int   `json:"unable,omitempty"`    // shards that it has failed at lately
	Due         float64 `json:"due"`                 // the shards that it should own, by weight
}

// MissingMember is a member that reports no more, and has not left the group.
type MissingMember struct {
	ID    string    `json:"id"`
	Host  string    `json:"host,omitempty"` // of its process
	PID   int       `json:"pid,omitempty"`  // of its process on Host
	Since time.Time `json:"since"`          // when it counted as dead, by the clock of a node
}

// readTimeout is the longest time that Read waits for one node.
const readTimeout = 1500 * time.Millisecond

// Read queries the nodes for the state of a group: its members, the shards that they report to
// own, and the shards that are planned for them. It waits for each node at most 1.5 s, and for the
// assigner's election as long again, or until ctx ends. The error is ErrNoGroup, or an
// elector.ErrUnreachable, with each node's elector.NodeError, when no majority answered. Read-only rights suffice.
func Read(ctx context.Context, q *elector.Quorum, name string) (Status, error) {
	if err := protocol.CheckGroup(name); err != nil {
		return Status{}, setting.Join("shard: ", err)
	}
	el, err := q.Election(ElectionOfAssigner(name))
	if err != nil {
		return Status{}, err
	}
	nodes, _ := q.Parts(module.Only{})
	views := group.Read(ctx, nodes, q.Prefix(), name, readTimeout)
	st, majority := Status{Group: name}, nodes.Majority()
	var lists, gone [][]group.Member
	since := map[string]time.Time{}
	var plans []*group.Plan
	settings := map[group.Settings]int{}
	for _, v := range views {
		if v.Err != nil {
			st.Problems = append(st.Problems, v.Err)
			continue
		}
		lists, plans = append(lists, v.Members), append(plans, v.Plan)
		var dead []group.Member
		for _, g := range v.Gone {
			dead, since[g.Incarnation] = append(dead, g.Member), g.Since
		}
		gone = append(gone, dead)
		settings[v.Settings]++
	}
	delete(settings, group.Settings{})
	for s, n := range settings {
		if best := group.NewSettings(st.Shards, st.Lease); n > settings[best] || n == settings[best] && s.Shards > best.Shards {
			st.Shards, st.Lease = s.Shards, s.Lease()
		}
	}
	if len(lists) < majority {
		return st, q.NoMajority(module.Only{}, st.Problems)
	}
	members := living(lists, majority)
	if len(members) == 0 || st.Shards == 0 { // Shards is 0 if the settings were read just before the first member wrote them
		return st, fmt.Errorf("%w: %s", ErrNoGroup, name)
	}
	assigners, _ := el.Status(ctx)
	if leader := cmp.Or(assigners.Leader, assigners.MayLead); leader != nil {
		st.Assigner = leader.Candidate
	}
	for _, m := range living(gone, majority) { // one that left is known to a node that did not answer then
		if !slices.ContainsFunc(members, func(o group.Member) bool { return o.ID == m.ID }) {
			st.Missing = append(st.Missing, MissingMember{ID: m.ID, Host: m.Host, PID: m.PID, Since: since[m.Incarnation]})
		}
	}
	st.describe(members, newest(plans, majority))
	return st, nil
}

// describe fills in the status from the members' records and the plan; nil: there is none.
func (st *Status) describe(members []group.Member, p *group.Plan) {
	if p == nil || p.Shards != st.Shards { // of a former group with that name
		p = &group.Plan{Shards: st.Shards}
	}
	alive, weights := map[string]bool{}, 0.0
	for _, m := range members {
		alive[m.Incarnation] = true
		if m.Closed == "" {
			weights += m.Weight
		}
	}
	for _, m := range members {
		one := MemberStatus{
			ID: m.ID, Incarnation: m.Incarnation, Advertise: m.Advertise, Version: m.Version, Host: m.Host, PID: m.PID, Weight: m.Weight,
			Closed: m.Closed, Owned: m.Owned, Unable: m.Unable,
		}
		if m.Closed == "" {
			one.Due = float64(st.Shards) * m.Weight / weights
		}
		if i := p.Index(m.Incarnation); i != group.NoMember {
			one.Planned = p.Members[i].Planned
		}
		st.Members = append(st.Members, one)
	}
	owner, next := group.Owners(st.Shards, members), p.Assignees()
	for s := range st.Shards {
		var to group.Assigned
		if next[s] != group.NoMember {
			to = p.Members[next[s]]
		}
		if owner[s] == group.NoMember {
			st.Unowned = append(st.Unowned, vacancy(s, to.Member, alive[to.Incarnation], members, len(p.Members) > 0))
		} else if alive[to.Incarnation] && to.Incarnation != members[owner[s]].Incarnation {
			st.Moving = append(st.Moving, s)
		}
	}
}

// Vacancy is a shard that no member reports as its own, and why that may be.
type Vacancy struct {
	Shard int    `json:"shard"`
	Next  string `json:"next,omitempty"` // the member that should own it; empty: none
	Why   string `json:"why"`            // no member owns it
}

// vacancy returns why no member may report a shard as its own. next is the member for which it is planned.
func vacancy(shard int, next group.Member, alive bool, members []group.Member, planned bool) Vacancy {
	v := Vacancy{Shard: shard}
	if alive {
		v.Next = next.ID
	}
	unable, closed := 0, 0
	for _, m := range members {
		if m.Closed != "" {
			closed++
		} else if m.Unable.Has(shard) {
			unable++
		}
	}
	switch {
	case !planned:
		v.Why = "there is no plan: no assigner leads"
	case closed == len(members):
		v.Why = "no member wants shards"
	case closed+unable == len(members):
		v.Why = "every member leaves it to others for now, after failed work or a step-down"
	case alive:
		v.Why = next.ID + " does not own it yet: the lease of its last owner may still run"
	case next.ID != "":
		v.Why = next.ID + " lives no more, and the plan for the others is not made yet"
	default:
		v.Why = "the plan assigns it to no member"
	}
	return v
}

// MarshalJSON returns what `mandate shards --json` prints: durations in milliseconds.
func (st Status) MarshalJSON() ([]byte, error) {
	problems := []string{}
	for _, err := range st.Problems {
		problems = append(problems, err.Error())
	}
	st.Members, st.Missing = append([]MemberStatus{}, st.Members...), append([]MissingMember{}, st.Missing...) // never null
	st.Unowned, st.Moving = append([]Vacancy{}, st.Unowned...), append([]int{}, st.Moving...)
	for i := range st.Members {
		m := &st.Members[i]
		m.Owned, m.Planned = append([]int{}, m.Owned...), append([]int{}, m.Planned...)
	}
	type fields Status
	return json.Marshal(struct {
		fields

		LeaseMs  int64    `json:"lease_ms"`
		Problems []string `json:"problems"`
	}{fields(st), st.Lease.Milliseconds(), problems})
}
