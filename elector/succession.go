package elector

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"
)

// Succession says who leads after whom. The lock alone decides who leads; a
// Succession only decides for whom the others wait, and who yields. All
// candidates of an election should use the same. A favourite that is dead or
// cut off delays an election by a quarter of a lease at most. Except for Race it is
// meant for some dozens of candidates: each hears of each.
type Succession string

// The successions.
const (
	// SuccessionRace: who comes first leads.
	SuccessionRace Succession = ""
	// SuccessionPriority: the healthy candidate with the highest Config.Priority leads; of
	// equals the one that has run longest (the bully algorithm's outcome). A
	// leader hands over to a higher one that has been healthy for a lease.
	SuccessionPriority Succession = "priority"
	// SuccessionSeniority: the healthy candidate that has run longest leads next.
	SuccessionSeniority Succession = "seniority"
	// SuccessionRotation: the healthy candidate with the next id in alphabetical order leads
	// next, after the last one the first (a ring). With Config.MaxTerm
	// the leadership walks round.
	SuccessionRotation Succession = "rotation"
)

func (s Succession) known() bool {
	return slices.Contains([]Succession{SuccessionRace, SuccessionPriority, SuccessionSeniority, SuccessionRotation}, s)
}

var errOutranked = errors.New("a candidate with a higher priority is available")

// roster is what a candidate knows of the others. It is the cards' alone.
type roster map[string]entry // by incarnation

type entry struct {
	CandidateStatus
	at time.Time // when its card came
}

func (r roster) note(c CandidateStatus, now time.Time) {
	if _, known := r[c.Incarnation]; known || len(r) < mostOthers {
		r[c.Incarnation] = entry{c, now}
	}
}

// forget drops those that were silent for too long.
func (r roster) forget(now time.Time, after time.Duration) {
	maps.DeleteFunc(r, func(_ string, c entry) bool { return now.Sub(c.at) > after })
}

// favourite is who should lead after the leader self; nil: nobody in particular.
func (r roster) favourite(s Succession, self CandidateStatus) *entry {
	var able []entry
	for _, c := range r {
		if c.Incarnation != self.Incarnation && c.Healthy && c.Role == RoleFollowing {
			able = append(able, c)
		}
	}
	if len(able) == 0 || s == SuccessionRace {
		return nil
	}
	slices.SortFunc(able, func(a, b entry) int {
		return cmp.Or(s.compare(self.ID, a.CandidateStatus, b.CandidateStatus), cmp.Compare(a.began(), b.began()),
			cmp.Compare(a.ID, b.ID), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return &able[0]
}

// began is when the candidate started to run, by our clock, coarsely.
func (c entry) began() int64 { return c.at.Add(-c.RunningFor).UnixMilli() }

// compare tells whether a goes before b after the leader of that id.
func (s Succession) compare(leader string, a, b CandidateStatus) int {
	switch s {
	case SuccessionPriority:
		return cmp.Compare(b.Priority, a.Priority)
	case SuccessionRotation: // those behind the leader before those in front of it
		return cmp.Or(cmp.Compare(ahead(leader, a.ID), ahead(leader, b.ID)), cmp.Compare(a.ID, b.ID))
	case SuccessionRace, SuccessionSeniority: // the longest running first
	}
	return 0
}

func ahead(leader, id string) int {
	if id > leader {
		return 0
	}
	return 1
}

// bully is the candidate to which a leader must yield, if any: of higher
// priority, and healthy for long enough that leadership does not flap.
func (r roster) bully(self CandidateStatus, hold time.Duration, now time.Time) *entry {
	c := r.favourite(SuccessionPriority, self)
	if c == nil || c.Priority <= self.Priority || c.HealthyFor+now.Sub(c.at) < hold {
		return nil
	}
	return c
}
