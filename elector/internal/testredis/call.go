package testredis

import (
	"slices"
	"strings"
	"time"
)

// Call is one script call that a node received. Script is the script's name; "read" and "looked"
// stand for the first and the last command of the pipeline that reads an election.
type Call struct {
	Script string
	Args   []string
	At     time.Time
}

// From reports whether the lock value of a candidate is among the arguments.
func (c Call) From(id string) bool {
	return slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, id+"/") })
}

// Scripts recognizes the scripts of a program. The zero value knows none.
type Scripts struct {
	Name   func(sent string) string // by the hash or the source of a script; "": not known
	Source func(name string) string
}

func (s Scripts) name(sent string) string {
	if s.Name == nil {
		return ""
	}
	return s.Name(sent)
}
