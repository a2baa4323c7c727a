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
)

// ErrNoGroup means that the group has no members: it has none yet, or all have been gone for two
// leases.
var ErrNoGroup = errors.New("shard: there is no such group")

// Status is the state of a group as its members report it.
type Status struct {
	Group    string
	Shards   int
	Lease    time.Duration
	Assigner string // its id; empty: none leads, or that could not be read
	Members  []MemberStatus
	Unowned  []Vacancy
	Moving   []int // shards that one member owns and that are planned for another one
	// Problems are the errors of single nodes. All other fields come from the remaining nodes.
	Problems []error
}

// MemberStatus is one living member.
type MemberStatus struct {
	ID          string  `json:"id"`
	Incarnation string  `json:"incarnation"`
	Advertise   string  `json:"advertise,omitempty"`
	Version     string  `json:"version,omitempty"`
	Host        string  `json:"host,omitempty"`
	PID         int     `json:"pid,omitempty"`
	Weight      float64 `json:"weight"`
	Closed      string  `json:"closed,omitempty"` // why it wants no shards: stopping, unhealthy or cut off; empty: it wants some
	Owned       []int   `json:"owned"`
	Planned     []int   `json:"planned"`          // shards that it should own
	Unable      []int   `json:"unable,omitempty"` // shards that it has failed at lately
	Due         float64 `json:"due"`              // the shards that it should own, by weight
}

// readTimeout is the longest time that Read waits for one node.
const readTimeout = 1500 * time.Millisecond

// Read queries the nodes for the state of a group: its members, the shards that they report to
// own, and the shards that are planned for them. It waits for each node at most 1.5 s, and for the
// assigner's election as long again, or until ctx ends. The error is ErrNoGroup, or an
// elector.ErrUnreachable when no majority of the nodes answered. Read-only rights suffice.
func Read(ctx context.Context, q *elector.Quorum, name string) (Status, error) {
	el, err := q.Election(ElectionOfAssigner(name))
	if err != nil {
		return Status{}, err
	}
	nodes, _ := q.Parts(module.Only{})
	if err := protocol.CheckWord("Group", name, maxGroup, "{}"); err != nil {
		return Status{}, fmt.Errorf("shard: %w", err)
	}
	views := group.Read(ctx, nodes, q.Prefix(), name, readTimeout)
	st, majority := Status{Group: name}, nodes.Majority()
	var lists [][]group.Member
	var plans []*group.Plan
	settings := map[group.Settings]int{}
	for _, v := range views {
		if v.Err != nil {
			st.Problems = append(st.Problems, v.Err)
			continue
		}
		lists, plans = append(lists, v.Members), append(plans, v.Plan)
		settings[v.Settings]++
	}
	delete(settings, group.Settings{})
	for s, n := range settings {
		if best := group.NewSettings(st.Shards, st.Lease); n > settings[best] || n == settings[best] && s.Shards > best.Shards {
			st.Shards, st.Lease = s.Shards, s.Lease()
		}
	}
	if len(lists) < majority {
		return st, fmt.Errorf("%w: %w", elector.ErrUnreachable, errors.Join(st.Problems...))
	}
	members := living(lists, majority)
	if len(members) == 0 || st.Shards == 0 { // Shards is 0 if the settings were read just before the first member wrote them
		return st, fmt.Errorf("%w: %s", ErrNoGroup, name)
	}
	if leader, err := el.Leader(ctx); err == nil {
		st.Assigner = leader.Candidate
	}
	p := newest(plans, majority)
	if p != nil && p.Shards != st.Shards {
		p = nil // of a former group with that name
	}
	st.describe(members, p)
	return st, nil
}

// describe fills in the status from the members' records and the plan.
func (st *Status) describe(members []group.Member, p *group.Plan) {
	planned := map[string]group.Set{} // by incarnation
	next, gone := map[int]string{}, map[int]string{}
	if p != nil {
		for _, pm := range p.Members {
			planned[pm.Incarnation] = pm.Planned
			ids := next
			if !slices.ContainsFunc(members, func(m group.Member) bool { return m.Incarnation == pm.Incarnation }) {
				ids = gone // the plan still assigns shards to a dead member
			}
			for _, s := range pm.Planned {
				ids[s] = pm.ID
			}
		}
	}
	owner, weights := map[int]int{}, 0.0
	for i, m := range members {
		for _, s := range m.Owned {
			owner[s] = i
		}
		if !m.Closed {
			weights += m.Weight
		}
	}
	for _, m := range members {
		one := MemberStatus{
			ID: m.ID, Incarnation: m.Incarnation, Advertise: m.Advertise, Version: m.Version, Host: m.Host, PID: m.PID, Weight: m.Weight,
			Owned: m.Owned, Planned: planned[m.Incarnation], Unable: m.Unable,
		}
		if m.Closed {
			one.Closed = cmp.Or(m.Why, "closed")
		} else {
			one.Due = float64(st.Shards) * m.Weight / weights
		}
		st.Members = append(st.Members, one)
	}
	for s := range st.Shards {
		if i, owned := owner[s]; !owned {
			st.Unowned = append(st.Unowned, Vacancy{Shard: s, Next: next[s], Why: whyUnowned(s, next[s], gone[s], members, p)})
		} else if next[s] != "" && !slices.Contains(st.Members[i].Planned, s) {
			st.Moving = append(st.Moving, s)
		}
	}
}

// Vacancy is a shard that no member reports as its own, and why that may be.
type Vacancy struct {
	Shard int    `json:"shard"`
	Next  string `json:"next,omitempty"` // the member that should own it; empty: none
	Why   string `json:"why"`
}

// whyUnowned returns why no member may report a shard as its own.
func whyUnowned(shard int, next, gone string, members []group.Member, p *group.Plan) string {
	unable, closed := 0, 0
	for _, m := range members {
		if m.Closed {
			closed++
		} else if m.Unable.Has(shard) {
			unable++
		}
	}
	switch {
	case p == nil:
		return "there is no plan: no assigner leads"
	case closed == len(members):
		return "no member wants shards"
	case closed+unable == len(members):
		return "every member has failed at it lately"
	case gone != "":
		return gone + " lives no more, and the plan for the others is not made yet"
	case next == "":
		return "the plan assigns it to no member"
	default:
		return next + " does not own it yet: the lease of its last owner may still run"
	}
}

// MarshalJSON returns what `mandate shards --json` prints: durations in milliseconds.
func (st Status) MarshalJSON() ([]byte, error) {
	problems := []string{}
	for _, err := range st.Problems {
		problems = append(problems, err.Error())
	}
	return json.Marshal(struct {
		Group    string         `json:"group"`
		Shards   int            `json:"shards"`
		LeaseMs  int64          `json:"lease_ms"`
		Assigner string         `json:"assigner,omitempty"`
		Members  []MemberStatus `json:"members"`
		Unowned  []Vacancy      `json:"unowned"`
		Moving   []int          `json:"moving"`
		Problems []string       `json:"problems"`
	}{st.Group, st.Shards, st.Lease.Milliseconds(), st.Assigner, list(st.Members), list(st.Unowned), list(st.Moving), problems})
}

// list makes an empty list of nil, so that the JSON has [] instead of null.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}
