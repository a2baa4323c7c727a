package elector

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Bounds of a conversation over the channel.
const (
	askTimeout   = time.Second            // for all answers
	joinTimeout  = 500 * time.Millisecond // to subscribe for them
	handoverLook = 200 * time.Millisecond // between looks at who leads
	// for the words about a change that was seen already
	handoverWords = 100 * time.Millisecond
)

// ErrRefused means that a request to hand over can't be met; the text says why.
var ErrRefused = errors.New("elector: refused")

// Candidates calls the roll of an election: who takes part at this moment, the
// leader first, then by id. It asks over the channel and waits until all that
// listen have answered, at most 1.5 s (or until ctx ends). A candidate that is
// hung or cut off is missing. The error is ErrUnreachable when no majority of the
// nodes could be asked.
func (q *Quorum) Candidates(ctx context.Context, prefix, election string) ([]Candidate, error) {
	s, err := q.steering(prefix, election)
	if err != nil {
		return nil, err
	}
	return s.candidates(ctx)
}

// Handover is a change of the leader that somebody asked for.
type Handover struct {
	From, To Leader
	// Gap is the time without a leader, from the end of the old one's work to the
	// begin of the new one's, each by the clock of its host. Zero: not known.
	Gap time.Duration
}

// Resign asks the leader to step down, and waits until another one leads or ctx
// ends. The leader stops its work first and releases the lock then; it campaigns
// again after its Config.Cooldown. note is for the history.
//
// The error is ErrNoLeader when nobody leads, or nobody does so yet when ctx ends
// (then with Handover.From); ErrRefused when the leader does not answer or
// its term was over.
func (q *Quorum) Resign(ctx context.Context, prefix, election, note string) (Handover, error) {
	s, err := q.steering(prefix, election)
	if err != nil {
		return Handover{}, err
	}
	return s.handOver(ctx, "", note)
}

// Transfer is Resign in favour of the candidate with that id: for a quarter of
// the lease the nodes elect nobody else. The error is ErrRefused also when that
// candidate takes no part, is not healthy, or leads already; and when, in the
// end, another one was elected.
func (q *Quorum) Transfer(ctx context.Context, prefix, election, to string) (Handover, error) {
	s, err := q.steering(prefix, election)
	if err != nil {
		return Handover{}, err
	}
	all, err := s.candidates(ctx)
	if err != nil {
		return Handover{}, err
	}
	heir, err := eligible(all, to)
	if err != nil {
		return Handover{}, err
	}
	h, err := s.handOver(ctx, heir.Incarnation, "transfer to "+to)
	if err == nil && h.To.Candidate != to {
		err = fmt.Errorf("%w: %s did not take over in time: %s leads", ErrRefused, to, h.To.Candidate)
	}
	return h, err
}

func eligible(all []Candidate, to string) (Candidate, error) {
	var ids []string
	for _, c := range all {
		ids = append(ids, c.ID)
		switch {
		case c.ID != to:
		case c.Role == string(leading):
			return c, fmt.Errorf("%w: %s leads already", ErrRefused, to)
		case !c.Healthy:
			return c, fmt.Errorf("%w: %s is not fit to lead: %s", ErrRefused, to, c.Detail)
		case c.Role != string(following):
			return c, fmt.Errorf("%w: %s is %s: try again later", ErrRefused, to, c.Role)
		default:
			return c, nil
		}
	}
	if len(ids) == 0 {
		return Candidate{}, fmt.Errorf("%w: no candidate answers in this election", ErrRefused)
	}
	return Candidate{}, fmt.Errorf("%w: no candidate %s answers; there are: %s", ErrRefused, to, strings.Join(ids, ", "))
}

// Pause keeps anybody new from being elected, for d, or until Resume when d is
// 0. A leader that is there goes on. It outlives restarts of all candidates. It
// blocks for a round trip, at most 1.5 s; the error tells which nodes could not be
// told, and matches ErrUnreachable when no majority could.
func (q *Quorum) Pause(ctx context.Context, prefix, election string, d time.Duration, reason string) error {
	s, err := q.steering(prefix, election)
	if err != nil {
		return err
	}
	if d < 0 || d > 0 && d < time.Millisecond {
		return fmt.Errorf("elector: a pause of %v: give at least a millisecond, or 0 for no end", d)
	}
	if len(reason) > maxReason {
		return fmt.Errorf("elector: a reason of %d bytes: at most %d", len(reason), maxReason)
	}
	note := cmp.Or(strings.ToValidUTF8(reason, "?"), "paused")
	err = s.enough(q.nodes.Pause(ctx, s.keys, note, d, statusTimeout))
	s.tell(ctx, question{Kind: sayPaused, Note: note})
	return err
}

const maxReason = 500

// Resume ends a pause; candidates that wait are told. It is no error when there
// was none. Bounds and errors are those of Pause.
func (q *Quorum) Resume(ctx context.Context, prefix, election string) error {
	s, err := q.steering(prefix, election)
	if err != nil {
		return err
	}
	err = s.enough(q.nodes.Resume(ctx, s.keys, statusTimeout))
	s.tell(ctx, question{Kind: sayResumed})
	return err
}

// steering is one operator's conversation with an election.
type steering struct {
	q        *Quorum
	election string
	keys     quorum.Keys
}

func (q *Quorum) steering(prefix, election string) (*steering, error) {
	prefix = cmp.Or(prefix, defaultPrefix)
	if err := errors.Join(checkWord("the prefix", prefix, maxName, "{}"), checkWord("the election's name", election, maxName, "{}")); err != nil {
		return nil, fmt.Errorf("elector: %w", err)
	}
	return &steering{q: q, election: election, keys: quorum.KeysOf(prefix, election)}, nil
}

// enough is nil when all nodes did it; an error that a majority did in spite of
// is no ErrUnreachable.
func (s *steering) enough(errs []error) error {
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	switch {
	case failed == 0:
		return nil
	case len(errs)-failed < s.q.nodes.Majority():
		return fmt.Errorf("%w: %w", ErrUnreachable, errors.Join(errs...))
	default:
		return fmt.Errorf("elector: not on all nodes, but on a majority: %w", errors.Join(errs...))
	}
}

func (s *steering) tell(ctx context.Context, q question) []error {
	q.Election = s.election
	return s.q.nodes.Publish(ctx, s.keys.Ask, q.encode(), askTimeout)
}

// ask puts a question and hands over the answers until enough says so, or time
// is up.
func (s *steering) ask(ctx context.Context, q question, enough func(answer) bool) error {
	q.Nonce = rand.Text()
	e := newEar(s.q.nodes, s.keys.Reply(q.Nonce))
	defer e.close()
	e.await(ctx, joinTimeout)
	errs := s.tell(ctx, q)
	failed := len(slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil }))
	if len(errs)-failed < s.q.nodes.Majority() {
		return fmt.Errorf("%w: %w", ErrUnreachable, errors.Join(errs...))
	}
	timeout := time.NewTimer(askTimeout)
	defer timeout.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timeout.C:
			return nil
		case <-e.poke:
		}
		for _, m := range e.take() {
			if a, err := parseAnswer(m.Payload); err == nil && enough(a) {
				return nil
			}
		}
	}
}

func (s *steering) candidates(ctx context.Context) ([]Candidate, error) {
	expected := s.q.nodes.Listeners(ctx, s.keys.Ask, joinTimeout)
	var all []Candidate
	known := map[string]bool{}
	if expected == 0 {
		return nil, nil
	}
	err := s.ask(ctx, question{Kind: askRollCall}, func(a answer) bool {
		if a.Card != nil && !known[a.Card.Incarnation] {
			known[a.Card.Incarnation] = true
			all = append(all, *a.Card)
		}
		return len(all) == expected
	})
	slices.SortFunc(all, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Token, a.Token), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return all, err
}

func (s *steering) handOver(ctx context.Context, to, note string) (Handover, error) {
	st, err := s.q.look(ctx, s.keys, s.election)
	if err != nil {
		return Handover{}, err
	}
	if st.Leader == nil {
		return Handover{}, ErrNoLeader
	}
	h := Handover{From: *st.Leader}
	events := newEar(s.q.nodes, s.keys.Events)
	defer events.close()
	events.await(ctx, joinTimeout)
	var got *answer
	err = s.ask(ctx, question{Kind: askHandOver, Token: h.From.Token, To: to, Note: note}, func(a answer) bool {
		got = &a
		return true
	})
	switch {
	case err != nil:
		return h, err
	case got == nil:
		return h, fmt.Errorf("%w: the leader %s does not answer: it may hang, be cut off, or be an older version", ErrRefused, h.From.Candidate)
	case got.Refused != "":
		return h, fmt.Errorf("%w: %s", ErrRefused, got.Refused)
	}
	return s.follow(ctx, h, events)
}

// follow waits for the next leader, and a little for the words of both about
// the change.
func (s *steering) follow(ctx context.Context, h Handover, events *ear) (Handover, error) {
	look := time.NewTicker(handoverLook)
	defer look.Stop()
	var words changeover
	var enough <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			if enough != nil {
				return h, nil
			}
			return h, fmt.Errorf("%w: %s was asked to step down, and no other has been elected yet", ErrNoLeader, h.From.Candidate)
		case <-enough:
			return h, nil
		case <-look.C:
		case <-events.poke:
		}
		for _, m := range events.take() {
			if ev, err := ParseEvent(m.Payload); err == nil && ev.Election == s.election {
				words.hear(ev, h.From.Token)
			}
		}
		if enough == nil {
			st, err := s.q.look(ctx, s.keys, s.election)
			if err != nil || st.Leader == nil || st.Leader.Token <= h.From.Token {
				continue
			}
			h.To = *st.Leader
			enough = time.After(handoverWords)
		}
		if h.Gap = words.gap(); h.Gap > 0 {
			return h, nil
		}
	}
}

// changeover is what both leaders say of their change.
type changeover struct{ released, elected time.Time }

func (c *changeover) hear(ev Event, from uint64) {
	switch {
	case ev.Kind == Released && ev.Token == from && c.released.IsZero():
		c.released = ev.Time
	case ev.Kind == Elected && ev.Token > from && c.elected.IsZero():
		c.elected = ev.Time
	}
}

func (c *changeover) gap() time.Duration {
	if c.released.IsZero() || c.elected.IsZero() {
		return 0
	}
	return max(0, c.elected.Sub(c.released))
}

// ear collects what is said on a channel.
type ear struct {
	stop   func()
	poke   chan struct{}
	joined chan struct{} // closed when a majority of the nodes listens to us
	mu     sync.Mutex
	heard  []quorum.Signal
	nodes  map[int]bool
}

func newEar(nodes *quorum.Nodes, channel string) *ear {
	e := &ear{poke: make(chan struct{}, 1), joined: make(chan struct{}), nodes: map[int]bool{}}
	e.stop = nodes.Watch(channel, func(s quorum.Signal) {
		e.mu.Lock()
		defer e.mu.Unlock()
		switch {
		case s.Kind == quorum.Subscribed && !e.nodes[s.Node]:
			e.nodes[s.Node] = true
			if len(e.nodes) == nodes.Len() {
				close(e.joined)
			}
		case s.Kind == quorum.Message && len(e.heard) < mostAnswers:
			e.heard = append(e.heard, s)
			select {
			case e.poke <- struct{}{}:
			default:
			}
		}
	})
	return e
}

// mostAnswers is more than any election has candidates.
const mostAnswers = 100_000

func (e *ear) close() { e.stop() }

// await waits until all nodes listen to us, at most for the limit.
func (e *ear) await(ctx context.Context, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-e.joined:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (e *ear) take() []quorum.Signal {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.heard
	e.heard = nil
	return all
}
