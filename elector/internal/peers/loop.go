package peers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// Start subscribes, and answers requests until Stop. Call it once; ctx bounds the reads from Redis.
func (p *Peers) Start(ctx context.Context) {
	p.since = time.Now()
	for _, channel := range []string{p.c.Keys.Ask, p.c.Keys.Roll} {
		s := p.c.Bus.Subscribe(channel, 0, func(s pubsub.Signal) bool {
			p.receive(channel, s)
			return false
		})
		p.subscriptions = append(p.subscriptions, s)
	}
	p.again = time.AfterFunc(p.c.RenewEvery, p.worker.wake)
	p.worker.begin(func() { p.work(ctx) })
}

// Stop ends the subscriptions, waits for the worker, and, except in a race, publishes that this
// candidate is gone, so that no other candidate waits for it.
func (p *Peers) Stop() {
	for _, s := range p.subscriptions {
		s.Close()
	}
	p.worker.end()
	p.heir.Store(nil)
	p.again.Stop()
	if p.c.Order != Race {
		self := p.self()
		p.publish(context.Background(), request{Kind: gone, Candidate: &self})
	}
}

// work answers what was received. Where the order of succession needs it, work also looks for an heir.
func (p *Peers) work(ctx context.Context) {
	for _, r := range append(p.requests.take(), p.rollCalls.take()...) {
		p.answer(ctx, r)
	}
	p.confirmPause(ctx)
	if p.c.Order != Race {
		p.updateSuccession(ctx) // the first look publishes what this candidate is
		p.again.Reset(p.c.RenewEvery)
	} else if !p.introduced {
		p.introduced = true
		p.introduce()
	}
}

// receive runs on the subscription's goroutine.
func (p *Peers) receive(channel string, s pubsub.Signal) {
	switch s.Kind {
	case pubsub.Message:
	case pubsub.Failed:
		p.c.NotSubscribed(s.Err)
		return
	default:
		return
	}
	q := pubsub.Parsed(s, requestOf)
	if q != nil && q.Version != protocol.Version {
		p.c.OtherVersion(q.Version)
		return
	}
	if q == nil || q.Election != p.c.Election || channel != p.c.channelOf(q.Kind) || p.concernsOthers(q) {
		return
	}
	p.mailboxOf(q.Kind).put(received{s.Node, q})
	p.worker.wake()
}

// requestOf parses a request; nil: the payload is none. Of one with another protocol only the version is known.
func requestOf(payload string) *request {
	q, err := parseRequest(payload)
	var other protocol.OtherVersion
	switch {
	case errors.As(err, &other):
		return &request{Version: int(other)}
	case err != nil:
		return nil
	}
	return &q
}

// concernsOthers reports whether this candidate can ignore a request: its own, or in a race, news
// of a candidate with another id.
func (p *Peers) concernsOthers(q *request) bool {
	if c := q.Candidate; c != nil && c.Incarnation == p.c.Incarnation {
		return true
	} else if c != nil && q.Kind == info && p.c.Order == Race && c.ID != p.c.ID {
		return true
	}
	return q.Kind == gone && p.c.Order == Race
}

// answer handles a request. Each request arrives once from every node.
func (p *Peers) answer(ctx context.Context, r received) {
	switch r.Kind {
	case info:
		if r.Candidate == nil || !r.Candidate.Identities().Meet(p.self().Identities()) {
			return // it votes about another lock
		}
		p.twin(*r.Candidate)
		if p.c.Order != Race {
			p.others.note(*r.Candidate, time.Now())
		}
	case gone:
		if r.Candidate != nil {
			delete(p.others, r.Candidate.Incarnation)
		}
	case rollCall:
		if p.fresh(r) {
			self := p.self()
			p.reply(ctx, r, Answer{Candidate: &self})
		}
	case leaderAll:
		if p.fresh(r) {
			self := p.self()
			p.publish(ctx, request{Kind: info, Candidate: &self})
		}
	case stepDown:
		if token, leads := p.c.Self.Leading(); leads && r.Leader == p.c.Incarnation && p.fresh(r) {
			p.reply(ctx, r, p.stepDown(token, r))
		}
	case paused, resumed:
		p.pauses.open = true
	}
}

// stepDown ends the term if the request is about this one.
func (p *Peers) stepDown(token uint64, r received) Answer {
	self := p.self()
	if r.Token != token {
		return Answer{Candidate: &self, Refused: "the term that you mean is over"}
	}
	why := errors.New("requested by an operator")
	if r.Note != "" {
		why = errors.New(requested(r.Note))
	}
	p.c.Self.HandOver(token, r.To, why)
	return Answer{Candidate: &self}
}

func (p *Peers) reply(ctx context.Context, r received, with Answer) {
	channel := protocol.Reply(p.c.channelOf(r.Kind), r.Nonce)
	ctx = context.WithoutCancel(ctx)
	p.mailboxOf(r.Kind).background(func() {
		_, _ = p.c.Nodes.PublishTo(ctx, r.node, channel, with.encode(), p.c.CallTimeout)
	})
}

// requested returns the reason of a step-down with a note; a note "by ..." names who requested it.
func requested(note string) string {
	if strings.HasPrefix(note, "by ") {
		return "requested " + note
	}
	return "requested by an operator: " + note
}

// maxTwins bounds how many processes with this candidate's id are remembered and logged: anyone
// who may publish can invent them.
const maxTwins = 16

// twin logs that another running process uses this candidate's id, once for each. Each candidate
// publishes what it is when it starts, and candidates with the same id then publish what they
// are, too. A lock left by an earlier life of this process proves nothing, so a restart with a
// fixed id is not reported as a twin.
func (p *Peers) twin(other Candidate) {
	if other.ID != p.c.ID || other.Incarnation == p.c.Incarnation || p.twins[other.Incarnation] || len(p.twins) >= maxTwins {
		return
	}
	if p.twins == nil {
		p.twins = map[string]bool{}
	}
	p.twins[other.Incarnation] = true
	p.c.Log.Warn("another process uses the same candidate id",
		"other_host", other.Host, "other_role", other.Role, "other_incarnation", other.Incarnation,
		"other_running", other.RunningFor.Round(time.Second))
	p.introduce()
}

// introduce publishes what this candidate is.
func (p *Peers) introduce() {
	self := p.self()
	p.publish(context.Background(), request{Kind: info, Candidate: &self})
}

// confirmPause reads from Redis whether the election is paused, if a report is still to be
// confirmed: at most once per RetryEvery, however many messages arrive. A candidate that waits
// for the end of a pause claims again.
func (p *Peers) confirmPause(ctx context.Context) {
	d := &p.pauses
	if !d.open {
		return
	}
	if wait := p.c.RetryEvery - time.Since(d.read); wait > 0 {
		if !d.waiting {
			d.waiting = true
			time.AfterFunc(wait, p.worker.wake)
		}
		return
	}
	*d = pauseCheck{read: time.Now()}
	if p.c.Self.IsPaused() {
		select {
		case p.pauseEnded <- struct{}{}:
		default:
		}
	}
	p.requests.background(func() { p.c.Self.ReadPause(ctx) })
}

// worker runs a function whenever there is something to do, never twice at the same time. It has
// a goroutine only during a run: of ten thousand elections in a process nearly all are idle.
type worker struct {
	mu      sync.Mutex // of all below
	work    func()     // nil before begin and after end
	due     bool       // there is something to do
	running bool       // a goroutine runs work

	runs sync.WaitGroup
}

// begin starts the worker, with a first run at once.
func (w *worker) begin(work func()) {
	w.mu.Lock()
	w.work = work
	w.mu.Unlock()
	w.wake()
}

// wake requests one more run, after the one that is under way. It never blocks.
func (w *worker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = true
	if w.work != nil && !w.running {
		w.running = true
		w.runs.Go(w.run)
	}
}

func (w *worker) run() {
	for work := w.next(); work != nil; work = w.next() {
		work()
	}
}

func (w *worker) next() (work func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running = w.due && w.work != nil; !w.running {
		return nil
	}
	w.due = false
	return w.work
}

// end stops the worker, and waits for the run that is under way.
func (w *worker) end() {
	w.mu.Lock()
	w.work = nil
	w.mu.Unlock()
	w.runs.Wait()
}
