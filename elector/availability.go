package elector

import (
	"cmp"
	"slices"
	"time"
)

// Vacancy describes an election that no candidate leads now.
type Vacancy struct {
	Election string     `json:"election"`
	Paused   bool       `json:"paused"` // an operator wants no new leader
	After    TermRecord `json:"after"`  // the last term, and why it ended
	// Since is when the last term ended, and For how long ago that is. When its end was not
	// reported, both are zero, and MaxFor is the upper bound: the time since that term began.
	Since  time.Time     `json:"since,omitzero"`
	For    time.Duration `json:"-"`
	MaxFor time.Duration `json:"-"`
}

// Availability sums up for how long an election had a leader, between From and Until.
// The time before From is left out: nothing is recorded of it, or it was not requested.
//
// Leaderless is how long there was no leader by the leaders' clocks; since it compares the clocks
// of two hosts, it is wrong by their difference. MaxLeaderless is its upper bound: for a leader
// that vanished only a bound is known. Time without a leader during a pause, which an operator
// wanted, is not part of either: it is Paused, and MaxPaused at most.
type Availability struct {
	Election      string        `json:"election"`
	From          time.Time     `json:"from"`
	Until         time.Time     `json:"until"`
	Terms         int           `json:"terms"`
	Leaderless    time.Duration `json:"-"`
	MaxLeaderless time.Duration `json:"-"`
	Paused        time.Duration `json:"-"`
	MaxPaused     time.Duration `json:"-"`
}

// Led returns for which part of the time there was a leader, from 0 to 1: at least and at most.
// Time without a leader during a pause is left out.
func (a Availability) Led() (least, most float64) {
	part := func(without, paused time.Duration) float64 {
		total := a.Until.Sub(a.From) - paused
		if total <= 0 {
			return 1
		}
		return max(0, 1-float64(without)/float64(total))
	}
	return part(a.MaxLeaderless, a.MaxPaused), part(a.Leaderless, a.Paused)
}

func (r TermRecord) endedBefore(t time.Time) bool {
	end := cmp.Or(r.Until, r.From.Add(r.MaxLasted))
	return !r.Current && r.Reason != "" && end.Before(t)
}

// vacancyOf returns since when no candidate leads. vacant is false if a candidate leads, or if that
// is not known.
func vacancyOf(p past, now time.Time) (v Vacancy, vacant bool) {
	if !p.known || p.status.Leader != nil || len(p.terms) == 0 {
		return v, false
	}
	last := p.terms[0]
	v = Vacancy{Election: p.status.Election, Paused: p.status.Paused, After: last}
	if end, exact := last.end(0); exact {
		v.Since, v.For = end, max(0, now.Sub(end))
	} else {
		v.MaxFor = last.MaxLasted
	}
	return v, true
}

// availabilityOf sums up terms, which are newest first. It reads no clock.
func availabilityOf(terms []TermRecord, p past, since, now time.Time) (a Availability, ok bool) {
	if len(terms) == 0 {
		return a, false
	}
	oldest := terms[len(terms)-1]
	a = Availability{Election: oldest.Election, From: oldest.Began(), Until: now, Terms: len(terms)}
	if a.From.Before(since) {
		a.From = since
	}
	if !a.From.Before(now) { // a leader's clock is ahead
		return a, false
	}
	led, exact := oldest.Began(), true // the time up to led is accounted for; exact: led is no mere bound
	without := func(until time.Time, sure bool) {
		from := led
		if until.After(now) {
			until = now
		}
		if from.Before(a.From) {
			from = a.From
		}
		if !until.After(from) {
			return
		}
		paused := pausedWithin(p.pauses, from, until)
		left := until.Sub(from) - paused
		a.MaxPaused += paused
		a.MaxLeaderless += left
		if sure {
			a.Leaderless += left
			a.Paused += paused // if not sure, the leader that vanished may have led through the pause
		}
	}
	for _, r := range slices.Backward(terms) {
		if begin := r.Began(); begin.After(led) {
			without(begin, exact && !r.From.IsZero())
		}
		if r.Current {
			led, exact = now, true
		} else if end, sure := r.end(r.MaxGap); end.After(led) || end.Equal(led) {
			led, exact = end, sure
		}
	}
	switch {
	case !p.known: // who led after the newest term is not known either
		a.Until = led
		if a.Until.Before(a.From) {
			a.Until = a.From
		}
	case p.status.Leader == nil:
		without(now, exact)
	case led.Before(now): // the sitting leader's report has not arrived
		without(now, false)
	}
	return a, a.Until.After(a.From)
}

func (v Vacancy) began() time.Time { return cmp.Or(v.Since, v.After.Began()) }
