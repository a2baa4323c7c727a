package electorhttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// events serves GET /events.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	if !h.running.Load() {
		refuse(w, http.StatusServiceUnavailable, "the election is not followed: the handler does not run")
		return
	}
	s, done := newStream(w, h.streams)
	if s == nil {
		return
	}
	defer done()
	s.h = h
	s.send([]byte("retry: 1000\n\n"))
	if r.Method == http.MethodHead {
		return
	}
	s.run(r)
}

// newStream begins a stream, which takes a place until done is called. Without a free place, it refuses
// the request and returns nil.
func newStream(w http.ResponseWriter, places chan struct{}) (s *stream, done func()) {
	select {
	case places <- struct{}{}:
	default:
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "there are %d streams already", cap(places))
		return nil, nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep the events to itself
	return &stream{w: w, control: http.NewResponseController(w)}, func() { <-places }
}

// extendWriteDeadline lets an answer take longer than the server's write time-out. A
// ResponseWriter that does not support it keeps its own time-out.
func extendWriteDeadline(c *http.ResponseController, write time.Duration) {
	_ = c.SetWriteDeadline(time.Now().Add(write))
}

// stream is one client of GET /events.
type stream struct {
	h       *Handler // nil: it is a stream of a Group
	w       http.ResponseWriter
	control *http.ResponseController
	at      uint64 // the number of the last event that was sent
	begun   bool   // the client knows the state as of at
	broken  bool   // the client is gone, or too slow
}

func (s *stream) run(r *http.Request) {
	s.at, s.begun = s.h.journal.number(r.Header.Get("Last-Event-ID"))
	beat := time.NewTicker(s.h.cfg.Heartbeat)
	defer beat.Stop()
	for !s.broken {
		changed, closed := s.catchUp()
		if closed || s.broken {
			return
		}
		select {
		case <-changed:
		case <-beat.C:
			s.send([]byte(": still here\n\n"))
		case <-r.Context().Done():
			return
		}
	}
}

// catchUp sends new events. It returns a channel that is closed when there are more, and whether the
// journal is closed.
func (s *stream) catchUp() (<-chan struct{}, bool) {
	if !s.begun {
		if ev, n, ok := s.h.journal.now(s.h.elector.Election().Name()); ok {
			s.event(ev, n)
			s.begun, s.at = true, n
		}
	}
	events, lost, changed, closed := s.h.journal.after(s.at)
	if !s.begun {
		if len(events) > 0 { // the first event was received just now: begin with the state
			return s.catchUp()
		}
		return changed, closed
	}
	if lost > 0 {
		s.at += uint64(lost)
		s.event(elector.Event{
			Version: 1, Kind: elector.EventSkipped, Election: s.h.elector.Election().Name(), Count: lost, Time: time.Now().Round(0),
		}, s.at)
	}
	for _, ev := range events {
		s.at++
		s.event(ev, s.at)
	}
	return changed, closed
}

func (s *stream) event(ev elector.Event, n uint64) {
	data, err := json.Marshal(ev)
	if err != nil { // strings, numbers and a time
		panic("electorhttp: an event that can't be encoded: " + err.Error())
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %s\nevent: %s\ndata: %s\n\n", s.h.journal.id(n), ev.Kind, data)
	s.send(b.Bytes())
}

// send writes to the client, with a time limit: a client that stops reading must not
// hold a goroutine forever.
func (s *stream) send(b []byte) {
	if s.broken {
		return
	}
	extendWriteDeadline(s.control, writeTimeout)
	if _, err := s.w.Write(b); err != nil {
		s.broken = true
		return
	}
	s.broken = s.control.Flush() != nil
}
