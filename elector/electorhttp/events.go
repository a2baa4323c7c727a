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
	if !sendEvents(w, []byte("retry: 1000\n\n")) || r.Method == http.MethodHead {
		return
	}
	stream(r.Context(), *run, w, h.elector)
}

// stream sends events until ctx or run ends, or the client is gone.
func stream(ctx, run context.Context, w http.ResponseWriter, e *elector.Elector) {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(run, cancel)()
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
			well = sendEvents(w, fmt.Appendf(nil, "event: %s\ndata: %s\n\n", ev.Kind, protocol.Encode(ev)))
		case <-beat.C:
			well = sendEvents(w, []byte(": still here\n\n"))
		}
	}
}

// sendEvents writes to the client, with a time limit: a client that stops reading must not
// hold a goroutine forever. False: the client is gone, or too slow.
func sendEvents(w http.ResponseWriter, b []byte) bool {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer supports it
	_, err := w.Write(b)
	return err == nil && control.Flush() == nil
}
