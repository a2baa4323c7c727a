package main

import "encoding/json"

// event is one of `go doc test2json`; beside those, of a build: ImportPath and
// Output.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// parse reports whether a line is an event; others are printed as they are.
func parse(line []byte) (event, bool) {
	var e event
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil || e.Action == "" {
		return event{}, false
	}
	return e, true
}
