package main

import "encoding/json"

// event is an event of `go doc test2json`, or an event of a build, of which only Output is
// read.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// parse parses a line. It returns false if the line is no event: such lines are printed as they
// are.
func parse(line []byte) (event, bool) {
	var e event
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil || e.Action == "" {
		return event{}, false
	}
	return e, true
}
