package console

import (
	"encoding/json"
	"fmt"
	"net/http"
)

type failure struct {
	Error string `json:"error"`
}

func refuse(w http.ResponseWriter, code int, format string, args ...any) {
	reply(w, code, failure{fmt.Sprintf(format, args...)})
}

func reply(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // impossible for strings and numbers
		panic("console: an answer that can't be encoded: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
