// Package setting has the error type for one setting of a configuration.
package setting

import (
	"fmt"
	"time"
)

// Error is a problem with one setting, in a sentence that begins with the setting's name.
type Error struct {
	Name string // empty: the sentence is about several settings, or about none
	rest error
}

// Errorf returns an Error. format is what follows the name in the sentence: " is empty", ": no such file".
func Errorf(name, format string, args ...any) *Error {
	return &Error{Name: name, rest: fmt.Errorf(format, args...)}
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Of(e.Name) }

// Of returns the sentence with another name of the setting, such as that of a flag. A sentence
// without a name stays as it is.
func (e *Error) Of(name string) string {
	if e.Name == "" {
		return e.rest.Error()
	}
	return name + e.rest.Error()
}

func (e *Error) Unwrap() error { return e.rest }

// CheckUnit returns the problem of a duration that was given as a plain number; nil: it has none.
func CheckUnit(name string, d time.Duration) error {
	if d <= 0 || d >= time.Millisecond {
		return nil
	}
	return Errorf(name, " is %v: give at least 1ms (was the unit forgotten, as in 5 instead of 5*time.Second?)", d)
}
