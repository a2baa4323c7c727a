// Package setting has the errors of configurations that can't work.
package setting

import (
	"errors"
	"fmt"
	"strings"
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

// Errors are all that is wrong with a configuration: elector.ConfigError. errors.Is and errors.As look into each of them.
type Errors struct {
	of   string // what was configured
	each []*Error
	errs []error
}

// Join returns the Errors of all these errors, which may be joined or Errors, or nil when there is none. of is what the
// text begins with, such as "config: ".
func Join(of string, errs ...error) error {
	e := &Errors{of: of}
	e.add(errs)
	if len(e.errs) == 0 {
		return nil
	}
	return e
}

func (e *Errors) add(errs []error) {
	for _, err := range errs {
		if err == nil {
			continue
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			e.add(joined.Unwrap())
			continue
		}
		var one *Error
		if !errors.As(err, &one) {
			one = Errorf("", "%w", err)
		}
		e.each, e.errs = append(e.each, one), append(e.errs, err)
	}
}

// Problems returns a sentence for each problem: what is wrong with a setting, and what to do about it. names returns the
// name to use for a setting. A sentence about several settings together stays as it is.
func (e *Errors) Problems(names func(setting string) string) []string {
	all := make([]string, len(e.each))
	for i, one := range e.each {
		all[i] = one.Of(names(one.Name))
	}
	return all
}

func (e *Errors) Error() string {
	return e.of + strings.Join(e.Problems(func(setting string) string { return setting }), "\n")
}

func (e *Errors) Unwrap() []error { return e.errs }
