package console

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

const (
	rollSoon   = 400 * time.Millisecond // after a change
	rollDenied = time.Minute            // if the Redis user may not call the roll: each refusal interrupts the subscription
	// rollTimeout is longer than a roll call takes when a node hangs (3 s): a roll that is cut off
	// would show healthy candidates as unresponsive.
	rollTimeout = 4 * time.Second
	rememberFor = time.Minute
)

// roller calls the roll of one election periodically, and soon after each change.
type roller struct {
	cache     *cache
	attention *attention
	turns     turns
	known     *known
	seen      map[string]lastSeen // by incarnation
}

// lastSeen is the last answer of a candidate, and its time.
type lastSeen struct {
	elector.CandidateStatus
	at time.Time
}

func (r *roller) run(ctx context.Context, el *elector.Election, changes <-chan struct{}) {
	for {
		at, attention := r.attention.of(el.Name())
		again, soon := at.roll, changes
		if denied := r.call(ctx, el, at.open); denied {
			again, soon, attention = rollDenied, nil, nil
		}
		timer := time.NewTimer(again)
		for waiting := true; waiting; {
			waiting = false
			select {
			case <-timer.C:
			case <-soon:
				sleep(ctx, rollSoon) // so that a candidate that stepped down is resting by now
			case <-attention:
				var next attended
				next, attention = r.attention.of(el.Name())
				waiting = (!next.open || at.open) && next.idle == at.idle
			case <-ctx.Done():
			}
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

func (r *roller) call(ctx context.Context, el *elector.Election, open bool) (denied bool) {
	r.turns.query(ctx, rollTimeout, func(calling context.Context) {
		leader := r.known.leader()
		all, err := el.Candidates(calling)
		denied = errors.Is(err, elector.ErrDenied)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = calling.Err() // a roll that was cut off proves nothing about missing candidates
		}
		now := time.Now()
		if err == nil {
			r.known.candidates(all, leader, now)
		}
		if answers := r.rollOf(el.Name(), all, err, now); open && (err == nil || !r.cache.has(kindRoll, el.Name())) {
			r.cache.set(kindRoll, el.Name(), answers)
		}
	})
	return denied
}

// rollOf returns the candidates that answered, and those that answered until a moment ago: a
// candidate that hangs or is cut off must not just disappear from the page.
func (r *roller) rollOf(election string, all []elector.CandidateStatus, err error, now time.Time) roll {
	answers := roll{Election: election, NowMS: now.UnixMilli(), Candidates: []candidate{}, Error: problemText(err)}
	ids := map[string]bool{}
	for i, c := range all {
		if i >= maxCandidates {
			answers.Hidden++
			continue
		}
		ids[c.ID] = true
		r.seen[c.Incarnation] = lastSeen{c, now}
		one := candidateOf(c, 0)
		one.Mark = markOf(c, all)
		answers.Candidates = append(answers.Candidates, one)
	}
	var missing []lastSeen
	for incarnation, s := range r.seen {
		switch {
		case s.at.Equal(now):
		case now.Sub(s.at) > rememberFor, ids[s.ID]: // the candidate was restarted, with the same id
			delete(r.seen, incarnation)
		default:
			missing = append(missing, s)
		}
	}
	slices.SortFunc(missing, func(a, b lastSeen) int { return b.at.Compare(a.at) })
	for _, s := range missing {
		if len(answers.Candidates) < maxCandidates {
			answers.Candidates = append(answers.Candidates, candidateOf(s.CandidateStatus, now.Sub(s.at)))
		}
	}
	return answers
}

// markOf returns what the answers of one roll call show to be wrong with a candidate: two
// candidates may lead, or can't be distinguished.
func markOf(c elector.CandidateStatus, all []elector.CandidateStatus) string {
	for _, o := range all {
		if o.ID == c.ID && o.Incarnation != c.Incarnation {
			return "another candidate has the same id: give each its own id"
		}
	}
	for _, o := range all {
		if !c.SameNodes(o) {
			return "votes with other Redis nodes than " + bounded(o.ID) + ", so both can lead: give all the same list"
		}
	}
	return ""
}
