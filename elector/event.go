package elector

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/millis"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// The kinds of events. EventElected and EventReleased go to the channel and the history
// of the election as JSON; the others are for local observers.
const (
	EventElected  = protocol.KindElected  // a leader's term has begun
	EventReleased = protocol.KindReleased // a term ended and its work has stopped
	EventVacant   = "vacant"              // no candidate leads (a leader disappeared without a report)
	EventStopping = "stopping"            // this leader's work was cancelled
	EventOverrun  = "overrun"             // this leader's work is still running although its lease has ended
)

// The kinds that programs need no names for.
const (
	eventUnhealthy = "unhealthy" // this candidate's probe fails: it does not campaign
	eventHealthy   = "healthy"   // this candidate's probe passes again
	eventPaused    = "paused"    // an operator wants no new leader: in the history, and in a Look
	eventResumed   = "resumed"   // an operator has ended the pause
)

// byOperator reports whether it is an operator's action, which belongs to no term.
func (ev Event) byOperator() bool { return ev.Kind == eventPaused || ev.Kind == eventResumed }

// Event is one change of an election. Anyone who has access to Redis can write events: one
// from the history or the channel is a hint, never a proof.
type Event struct {
	Version   int    `json:"v"`    // of the format: 1
	Kind      string `json:"kind"` // one of the Event constants, "unhealthy", "healthy", "paused" or "resumed"
	Election  string `json:"election,omitempty"`
	Candidate string `json:"candidate,omitempty"` // the candidate that it is about
	// Incarnation distinguishes two candidates with one id, or two lives of one candidate; empty
	// on events that are about none.
	Incarnation string    `json:"incarnation,omitempty"`
	Advertise   string    `json:"advertise,omitempty"` // where that candidate can be reached
	Token       uint64    `json:"token,omitempty"`     // of its term
	Reason      Reason    `json:"reason,omitempty"`    // on Stopping and Released
	Detail      string    `json:"detail,omitempty"`    // the reason in words
	Next        string    `json:"next,omitempty"`      // on Released: the incarnation of the heir
	Time        time.Time `json:"time"`                // by the clock of its reporter

	// Held, on Released: for how long the lease covered the work, until the
	// work had returned or the lease ended, by the clock that Term.Valid reads; zero: not known.
	Held time.Duration `json:"-" ms:"held_ms,omitempty"`

	// On operator actions, in the history only: who acted, and for how long a pause is.
	By  string        `json:"by,omitempty"`
	For time.Duration `json:"-" ms:"for_ms,omitempty"`
}

const eventVersion = 1

// parseEvent reads an event of an election from a message or the history stream; false: it is none.
func parseEvent(s string) (ev Event, ok bool) {
	ok = len(s) <= protocol.MaxMessage && json.Unmarshal([]byte(s), &ev) == nil &&
		ev.Version >= 1 && ev.Kind != "" && ev.Election != "" && ev.Token <= maxToken
	if !ok {
		return Event{}, false
	}
	return ev, true
}

// maxToken is the largest number that Redis' scripts represent exactly.
const maxToken = 1<<53 - 1

func (ev Event) encode() []byte {
	// Details hold foreign text (a probe's, a child's). They are clipped, so that no
	// event outgrows what a reader accepts.
	ev.Detail = protocol.Clip(ev.Detail, protocol.MaxDetail)
	b, err := json.Marshaler(ev).MarshalJSON() // json.Marshal would check the result once more
	if err != nil {                            // strings, numbers and a time of this century
		panic("an event that can't be encoded: " + err.Error())
	}
	return b
}

type plainEvent Event // without its methods, which would call themselves

// MarshalJSON writes durations in milliseconds.
func (ev Event) MarshalJSON() ([]byte, error) { return millis.Marshal(plainEvent(ev)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (ev *Event) UnmarshalJSON(b []byte) error { return millis.Unmarshal(b, (*plainEvent)(ev)) }

// eventBuffer is how many events an observer may lag behind before the oldest are dropped.
const eventBuffer = 64

// subscribers are the observers of a candidate in its own process. Each gets the candidate's events
// in order; publish waits for none of them.
type subscribers struct {
	mu   sync.Mutex
	subs map[chan Event]struct{}
}

func (f *subscribers) publish(ev Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.subs {
		if len(s) == cap(s) { // drop the oldest: the newest show the current state
			select {
			case <-s:
			default: // it was taken meanwhile
			}
		}
		s <- ev
	}
}

func (f *subscribers) subscribe() chan Event {
	s := make(chan Event, eventBuffer)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subs == nil {
		f.subs = map[chan Event]struct{}{}
	}
	f.subs[s] = struct{}{}
	return s
}

func (f *subscribers) unsubscribe(s chan Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subs, s)
}
