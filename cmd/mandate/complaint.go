package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mandate-dev/mandate/elector"
)

// Bounds of what is said about a command line: what somebody has pasted by
// mistake must not bury what is wrong with it.
const (
	mostProblems = 50
	longestLine  = 1000
)

// oneByOne writes an error for a person, its problems as a list. It may quote
// what was typed, by libraries that quote it as it is: so it is made fit for a
// terminal here, and holds no password.
func oneByOne(err error) string {
	what, lines := problemsOf(err)
	for i, line := range lines {
		lines[i] = cut(withoutPasswords(strings.TrimSpace(line)), longestLine)
	}
	n := len(lines)
	if more := n - mostProblems; more > 0 {
		lines = append(lines[:mostProblems], fmt.Sprintf("and %d more", more))
	}
	switch {
	case n == 1 && what == "":
		return lines[0]
	case n == 1:
		return what + ": " + lines[0]
	case what == "":
		what = fmt.Sprintf("%d problems", len(lines))
	}
	return what + ":\n  - " + strings.Join(lines, "\n  - ")
}

// problemsOf takes joined errors apart. What they have in common is empty when
// each stands for itself.
func problemsOf(err error) (what string, lines []string) {
	var usage *usageError
	var exit *exitError
	var nodes *nodesError
	switch {
	case errors.As(err, &nodes):
		return nodes.what, slices.Clone(nodes.said)
	case errors.As(err, &usage):
		return "", slices.Clone(usage.problems)
	case errors.As(err, &exit):
		return "", strings.Split(strings.TrimSpace(err.Error()), "\n")
	default: // of the flags: a new line in there is one that was typed
		return "", []string{err.Error()}
	}
}

// nodesError is one problem, with what each node said about it.
type nodesError struct {
	what string
	said []string
}

func (e *nodesError) Error() string { return e.what + ": " + strings.Join(e.said, "\n") }

// aboutNodes is an error of the library without the name of its package, and with
// what the nodes said kept apart.
func aboutNodes(err error) error {
	if err == nil {
		return nil
	}
	text := withoutPackage(err)
	for _, what := range []string{withoutPackage(elector.ErrUnreachable), withoutPackage(elector.ErrDenied), withoutPackage(elector.ErrPermanent), "a majority of the Redis nodes answered with an error",
		"not on all nodes, but on a majority", "the list may be incomplete"} {
		if said, ok := strings.CutPrefix(text, what+": "); ok {
			return &nodesError{what, strings.Split(said, "\n")}
		}
	}
	return errors.New(text)
}

func withoutPackage(err error) string { return strings.TrimPrefix(err.Error(), "elector: ") }

// userinfo is where a URL holds its password. A password may hold anything, also
// a space, and also an @.
var userinfo = regexp.MustCompile(`(?s)://.*@`)

// withoutPasswords takes the passwords out of what may quote a URL: one that was
// given in the wrong place is quoted like any other wrong word.
func withoutPasswords(s string) string {
	return userinfo.ReplaceAllStringFunc(s, func(found string) string {
		switch found {
		case "://user:password@", "://[user:password@": // of our own advice
			return found
		}
		return "://***@"
	})
}
