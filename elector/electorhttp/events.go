package electorhttp

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// events serves GET /events.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	run := h.running.Load()
	if run == nil {
		refuse(w, http.StatusServiceUnavailable, "the election is not followed: the handler does not run")
		return
	}
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "there are %d streams already", maxStreams)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep the events to itself
	s := &stream{w: w, control: http.NewResponseController(w)}
	if !s.send([]byte("retry: 1000\n\n")) || r.Method == http.MethodHead {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(*run, cancel)()
	s.run(ctx, h.elector)
}

// extendWriteDeadline lets an answer take longer than the server's write time-out. A
// ResponseWriter that does not support it keeps its own time-out.
func extendWriteDeadline(c *http.ResponseController, write time.Duration) {
	_ = c.SetWriteDeadline(time.Now().Add(write))
}

// stream is one client of GET /events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// run sends events until ctx ends, or the client is gone.
func (s *stream) run(ctx context.Context, e *elector.Elector) {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan elector.Event)
	go func() {
		defer close(events)
		for ev := range e.Election().Observe(ctx) {
			select {
			case events <- ev:
			case <-ctx.Done():
			}
		}
	}()
	defer func() {
		cancel()
		for range events { // until Observe has ended
		}
	}()
	beat := time.NewTicker(min(e.Lease()/4, 10*time.Second))
	defer beat.Stop()
	for well := true; well; {
		select {
		case ev, ok := <-events:
			if !ok {
				return
			}
			well = s.event(ev)
		case <-beat.C:
			well = s.send([]byte(": still here\n\n"))
		}
	}
}

func (s *stream) event(ev elector.Event) bool {
	return s.send(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", ev.Kind, protocol.Encode(ev)))
}

// send writes to the client, with a time limit: a client that stops reading must not
// hold a goroutine forever. False: the client is gone, or too slow.
func (s *stream) send(b []byte) bool {
	extendWriteDeadline(s.control, writeTimeout)
	if _, err := s.w.Write(b); err != nil {
		return false
	}
	return s.control.Flush() == nil
}
