package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

const (
	drainTimeout = 10 * time.Minute // for all elections
	drainAtATime = 8                // at most so many are without a leader at once
)

// drainTarget is what should lead nothing after a drain: the candidates of a host, of a process on
// a host, or with an id.
type drainTarget struct {
	host, id string
	pid      int
}

func (t drainTarget) matches(c elector.CandidateStatus) bool {
	return (t.host == "" || c.Host == t.host) && (t.pid == 0 || c.PID == t.pid) && (t.id == "" || c.ID == t.id)
}

// handedOver is a line of the answer to a drain: the result for one election.
type handedOver struct {
	Election string `json:"election,omitempty"` // empty: an error that concerns no single election
	Result   string `json:"result,omitempty"`
	Error    string `json:"error,omitempty"`
}

// drained is the last line of that answer.
type drained struct {
	Result     string `json:"result"`
	HandedOver int    `json:"handed_over"`
	Failed     int    `json:"failed"` // still led by the target, or unknown; 1 if no candidate matches the target
}

// drain hands over the elections that a target leads.
type drain struct {
	target drainTarget
	by     string

	mu     sync.Mutex
	chosen map[place]int // how many elections were handed to a host, a process, or a candidate; guarded by mu
	met    bool          // a candidate that matches has answered; guarded by mu
	report func(handedOver)
}

// drain serves POST /api/drain. It hands over each election that the target leads to a candidate
// outside of the target, and reports each result as a line of JSON.
func (o *operators) drain(w http.ResponseWriter, r *http.Request) {
	req, ok := o.permitted(w, r)
	if !ok {
		return
	}
	if req.Host == "" && req.ID == "" || req.PID < 0 || req.PID > 0 && req.Host == "" {
		refuse(w, http.StatusBadRequest, "name what is to lead no more: a host, a pid on it, or the id of a candidate")
		return
	}
	end, ok := o.begin(w, drainTimeout)
	if !ok {
		return
	}
	defer end()
	ctx, cancel := context.WithTimeout(r.Context(), drainTimeout)
	defer cancel()
	names, listErr := o.drainable(ctx)
	if len(names) == 0 && listErr != nil {
		answer(w, "", listErr)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Accel-Buffering", "no") // otherwise nginx would buffer the lines
	control, out := http.NewResponseController(w), json.NewEncoder(w)
	send := func(line any) {
		_ = out.Encode(line) // if the client is gone, the context ends
		_ = control.Flush()
	}
	var sum drained
	d := &drain{target: drainTarget{req.Host, req.ID, req.PID}, by: o.visitors.operator(r, req.By), chosen: map[place]int{}}
	d.report = func(one handedOver) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if one.Error == "" {
			sum.HandedOver++
		} else {
			sum.Failed++
		}
		o.log.Info("operator action", "action", "drain", "election", one.Election, "host", bounded(req.Host), "pid", req.PID, "id", bounded(req.ID),
			"by", d.by, "from", r.RemoteAddr, "reason", bounded(req.Reason), "result", one.Result, "error", one.Error)
		send(one)
	}
	if listErr != nil { // hand over what is known, even if a node is unreachable
		d.report(handedOver{Error: problemText(listErr)})
	}
	d.run(ctx, o.quorum, names)
	sum.Result = fmt.Sprintf("%d handed over, %d not", sum.HandedOver, sum.Failed)
	switch {
	case sum.HandedOver+sum.Failed > 0:
	case d.met:
		sum.Result = "it leads no election"
	default: // a script must not take a misspelt host for drained
		sum.Result, sum.Failed = "no such candidate answers: the name is misspelt, or it has ended", 1
	}
	send(sum)
}

// drainable returns the elections that are shown, including those of the shards of groups.
func (o *operators) drainable(ctx context.Context) ([]string, error) {
	names, err := o.quorum.Elections(ctx)
	names = slices.DeleteFunc(names, func(name string) bool { return !o.shows(name) || slices.Contains(o.elections, name) })
	return append(names, o.elections...), err
}

func (d *drain) run(ctx context.Context, quorum *elector.Quorum, names []string) {
	next := make(chan string)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(next)
	for range min(drainAtATime, len(names)) {
		wg.Go(func() {
			for name := range next {
				if el, err := quorum.Election(name); err == nil { // otherwise someone has made a key with an invalid name
					d.one(ctx, el)
				}
			}
		})
	}
	for _, name := range names {
		next <- name
	}
}

// one hands over an election if the target leads it.
func (d *drain) one(ctx context.Context, el *elector.Election) {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	all, err := el.Candidates(ctx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		d.report(handedOver{Election: el.Name(), Error: "who leads it is not known: " + problemText(err)})
		return
	}
	if slices.ContainsFunc(all, d.target.matches) {
		d.mu.Lock()
		d.met = true
		d.mu.Unlock()
	}
	i := slices.IndexFunc(all, func(c elector.CandidateStatus) bool { return c.Role == elector.RoleLeading })
	if i < 0 {
		d.unresponsive(ctx, el, all)
		return
	}
	if !d.target.matches(all[i]) {
		return
	}
	heir, err := d.heir(all[i], all)
	if err == nil {
		var h elector.Handover
		h, err = el.As(d.by).Transfer(ctx, heir.ID)
		if err == nil {
			d.report(handedOver{Election: el.Name(), Result: handover(h)})
			return
		}
	}
	d.report(handedOver{Election: el.Name(), Error: problemText(err)})
}

// unresponsive reports a leader that did not answer the roll call, because it may be the target.
func (d *drain) unresponsive(ctx context.Context, el *elector.Election, all []elector.CandidateStatus) {
	l, err := el.Leader(ctx)
	answered := slices.ContainsFunc(all, func(c elector.CandidateStatus) bool { return c.Incarnation == l.Incarnation })
	switch {
	case errors.Is(err, elector.ErrNoLeader), err == nil && (answered || d.target.id != "" && d.target.id != l.Candidate):
	case err != nil:
		d.report(handedOver{Election: el.Name(), Error: "who leads it is not known: " + problemText(err)})
	default:
		d.report(handedOver{Election: el.Name(), Error: bounded(l.Candidate) + " leads it and does not answer, so its host is not known"})
	}
}

// heir returns the candidate that should lead next. It is not a part of the target, is able to
// lead, has the highest priority, and among such candidates is on the host, and in the process,
// that was handed the fewest elections.
func (d *drain) heir(leader elector.CandidateStatus, all []elector.CandidateStatus) (elector.CandidateStatus, error) {
	others := slices.DeleteFunc(slices.Clone(all), d.target.matches)
	able, err := elector.Leader{Incarnation: leader.Incarnation}.SuccessorsIn(others)
	if err != nil {
		return elector.CandidateStatus{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	heir := slices.MinFunc(able, func(a, b elector.CandidateStatus) int {
		by := cmp.Compare(b.Priority, a.Priority)
		for i, place := range placesOf(a) {
			by = cmp.Or(by, cmp.Compare(d.chosen[place], d.chosen[placesOf(b)[i]]))
		}
		return by
	})
	for _, place := range placesOf(heir) {
		d.chosen[place]++
	}
	return heir, nil
}

// placesOf returns the places of a candidate: its host, its process, and itself.
func placesOf(c elector.CandidateStatus) [3]place {
	return [3]place{{host: c.Host}, {host: c.Host, pid: c.PID}, {host: c.Host, pid: c.PID, id: c.ID}}
}
