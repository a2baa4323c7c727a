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
	drainAtATime = 8                // so many are without a leader at once, at most
)

// drainTarget is what leads no more after a drain: the candidates of a host, of one of its
// processes, or with an id.
type drainTarget struct {
	host, id string
	pid      int
}

func (t drainTarget) matches(c elector.CandidateStatus) bool {
	return (t.host == "" || c.Host == t.host) && (t.pid == 0 || c.PID == t.pid) && (t.id == "" || c.ID == t.id)
}

// handedOver is a line of the answer to a drain: what came of one election.
type handedOver struct {
	Election string `json:"election,omitempty"` // empty: an error that is of none
	Result   string `json:"result,omitempty"`
	Error    string `json:"error,omitempty"`
}

// drained is the last line.
type drained struct {
	Result     string `json:"result"`
	HandedOver int    `json:"handed_over"`
	Failed     int    `json:"failed"` // they are led as before, or it is not known; 1: the target is not known
}

// drain hands over what a target leads.
type drain struct {
	target drainTarget
	by     string

	mu     sync.Mutex
	chosen map[place]int // how many elections a host, a process and a candidate were handed
	met    bool          // a candidate that matches has answered
	report func(handedOver)
}

// drain is POST /api/drain. It hands over each election that the target leads to a candidate
// elsewhere, and reports them one by one, a line of JSON for each.
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
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep it to itself
	control, out := http.NewResponseController(w), json.NewEncoder(w)
	send := func(line any) {
		_ = out.Encode(line) // the client may be gone: then the context ends
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
	if listErr != nil { // a node that is away is no reason to hand over nothing
		d.report(handedOver{Error: problemText(listErr)})
	}
	d.run(ctx, o.quorum, names)
	sum.Result = fmt.Sprintf("%d handed over, %d not", sum.HandedOver, sum.Failed)
	switch {
	case sum.HandedOver+sum.Failed > 0:
	case d.met:
		sum.Result = "it leads no election"
	default: // a script that has misspelt a host must not take it for drained
		sum.Result, sum.Failed = "no such candidate answers: the name is misspelt, or it has ended", 1
	}
	send(sum)
}

// drainable are the elections that are shown, with those of the shards of the groups among them.
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
				if el, err := quorum.Election(name); err == nil { // otherwise a key that was made by hand
					d.one(ctx, el)
				}
			}
		})
	}
	for _, name := range names {
		next <- name
	}
}

// one hands one election over, if the target leads it.
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

// unresponsive reports a leader that did not answer the roll call: it may be the target.
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

// heir is who leads next: not a part of the target, able, of the highest priority, and among
// those on the host, in the process, that was handed the fewest elections.
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

// placesOf are a candidate's host, its process, and itself.
func placesOf(c elector.CandidateStatus) [3]place {
	return [3]place{{host: c.Host}, {host: c.Host, pid: c.PID}, {host: c.Host, pid: c.PID, id: c.ID}}
}
