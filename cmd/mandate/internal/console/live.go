package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// maxOpen are the elections that one stream of details may be of.
const maxOpen = 20

// live is GET /api/live: the table as it is, then what changes. With ?election=NAME, which
// may be repeated, it is the details of these elections instead.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	elections := r.URL.Query()["election"]
	if len(elections) > maxOpen {
		refuse(w, http.StatusBadRequest, "%d elections: at most %d at a time", len(elections), maxOpen)
		return
	}
	if !c.viewers.enter() {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "there are %d viewers already", c.viewers.max)
		return
	}
	defer c.viewers.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep it to itself
	if r.Method == http.MethodHead {
		return // nothing would reach the client, and its next request would wait for ever
	}
	if len(elections) > 0 {
		defer c.attention.open(elections)()
	}
	control := http.NewResponseController(w)
	// A reader that stands still must not hold a goroutine for ever.
	send := func(b []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every ResponseWriter can
		_, err := w.Write(b)
		return err == nil && control.Flush() == nil
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	ok := send([]byte("retry: 1000\n\n"))
	for at := uint64(0); ok; {
		var news []byte
		var changed <-chan struct{}
		if news, at, changed = c.cache.after(at, elections); len(news) > 0 && !send(news) {
			return
		}
		select {
		case <-changed:
			// A change seldom comes alone, and the others fit into the same piece.
			ok = pause(r.Context(), gather)
		case <-beat.C:
			ok = send([]byte("event: beat\ndata: {}\n\n")) // the page notices when it stays out
		case <-r.Context().Done():
			return
		}
	}
}

type failure struct {
	Error string `json:"error"`
}

func refuse(w http.ResponseWriter, code int, format string, args ...any) {
	reply(w, code, failure{fmt.Sprintf(format, args...)})
}

func reply(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // strings and numbers
		panic("console: an answer that can't be encoded: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
