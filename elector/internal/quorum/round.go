package quorum

import (
	"errors"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// round counts the answers of the nodes to one request of an election. It belongs to one goroutine, and
// gets the answers in any order. Once it is over, the answers of the other nodes count as unknown.
type round struct {
	majority int
	yes      protocol.Status // the answer that a majority has to give
	every    bool            // decided only when all expected nodes have answered
	started  time.Time

	answers  []protocol.Answer // by node
	sent     []int             // by node: requests that have not ended
	ignored  []bool            // nodes that are not expected to answer: their last request failed
	agreed   int               // nodes that answered yes
	definite int               // nodes that answered
	ended    bool
}

// WaitFactor is how long the other nodes get once a majority has answered, in multiples of the
// majority's time. They get at least MinExtraWait, since timers are no finer.
const (
	WaitFactor   = 4
	MinExtraWait = time.Millisecond
)

var errOverruled = errors.New("no answer before the round ended")

func newRound(nodes int, yes protocol.Status, every bool) *round {
	r := &round{
		majority: nodes/2 + 1, yes: yes, every: every, started: time.Now(),
		answers: make([]protocol.Answer, nodes), sent: make([]int, nodes), ignored: make([]bool, nodes),
	}
	for i := range r.answers {
		r.answers[i] = noAnswer
	}
	return r
}

var noAnswer = protocol.Answer{Status: protocol.Unknown, Subscribers: -1}

// record counts the outcome of one request to a node.
func (r *round) record(node int, a protocol.Answer) {
	r.sent[node]--
	if r.answers[node].Status != protocol.Unknown || r.ended {
		return
	}
	r.answers[node] = a
	if a.Status != protocol.Unknown {
		r.definite++
	}
	if a.Status == r.yes {
		r.agreed++
	}
}

// over reports whether the round is decided and no expected answer is missing, or no request is left to
// wait for.
func (r *round) over() bool {
	decided := max(r.agreed, r.definite-r.agreed) >= r.majority || r.outstanding() == 0
	return r.ended || decided && !(r.every && r.expects())
}

// expects reports whether a node has a request under way that it is expected to answer.
func (r *round) expects() bool {
	for node, n := range r.sent {
		if n > 0 && r.answers[node].Status == protocol.Unknown && !r.ignored[node] {
			return true
		}
	}
	return false
}

// answered reports whether a majority has answered, with whatever answer.
func (r *round) answered() bool { return r.definite >= r.majority }

// await counts the answers until the round is over, or the other nodes have had their time. Each passes
// note first.
func (r *round) await(answers <-chan *request, note func(*request)) {
	var others <-chan time.Time
	for !r.over() {
		if r.answered() && others == nil {
			others = time.After(max(MinExtraWait, WaitFactor*time.Since(r.started)))
		}
		select {
		case a := <-answers:
			note(a)
			if a.round == r {
				r.record(a.node, a.answer)
			}
		case <-others:
			r.ended = true
		}
	}
	r.end()
}

// end ends the round.
func (r *round) end() {
	r.ended = true
	for i, a := range r.answers {
		if a.Status == protocol.Unknown && a.Err == nil {
			r.answers[i].Err = errOverruled
		}
	}
}

// outstanding returns how many requests have not ended.
func (r *round) outstanding() (n int) {
	for _, k := range r.sent {
		n += k
	}
	return n
}
