package electorhttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// failure is the body of an answer with an error.
type failure struct {
	Error          string    `json:"error"`
	UnhealthySince time.Time `json:"unhealthy_since,omitzero"` // of GET /ready
}

func refuse(w http.ResponseWriter, code int, format string, args ...any) {
	reply(w, code, failure{Error: fmt.Sprintf(format, args...)})
}

func reply(w http.ResponseWriter, code int, v any) {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)              // keep addresses readable, without \u0026; safe because the content type is JSON
	if err := e.Encode(v); err != nil { // strings, numbers and times
		panic("electorhttp: an answer that can't be encoded: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body.Bytes()) // the client may be gone
}
