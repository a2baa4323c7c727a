package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
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
	lines := problemsOf(err)
	for i, line := range lines {
		lines[i] = cut(withoutPasswords(strings.TrimSpace(line)), longestLine)
	}
	if more := len(lines) - mostProblems; more > 0 {
		lines = append(lines[:mostProblems], fmt.Sprintf("and %d more", more))
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("%d problems:\n  - %s", len(lines), strings.Join(lines, "\n  - "))
}

// problemsOf takes joined errors apart.
func problemsOf(err error) []string {
	var usage *usageError
	var exit *exitError
	switch {
	case errors.As(err, &usage):
		return slices.Clone(usage.problems)
	case errors.As(err, &exit):
		return strings.Split(strings.TrimSpace(err.Error()), "\n")
	default: // of the flags: a new line in there is one that was typed
		return []string{err.Error()}
	}
}

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
