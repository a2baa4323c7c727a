package elector

import (
	"errors"
	"strings"

	"github.com/mandate-dev/mandate/elector/internal/setting"
)

// ConfigError is a configuration that can't work: of New, Open, NewQuorum,
// Quorum.Election or Quorum.Elections. It lists every problem, and errors.Is and errors.As
// look into each of them.
type ConfigError struct {
	Problems []ConfigProblem

	of   string // what was configured
	errs []error
}

// ConfigProblem is what is wrong with one setting, and what to do about it.
type ConfigProblem struct {
	// Setting is a field of Config, "Prefix" (Namespace), "URL 2" (Open) or "client 2"
	// (NewQuorum). Empty: the problem is of several of them together.
	Setting string

	said *setting.Error
}

// String is the problem as a sentence.
func (p ConfigProblem) String() string { return p.said.Error() }

// Of is the sentence with another name in the place of Setting: that of a flag, or of an
// environment variable. A problem of several settings has none to replace.
func (p ConfigProblem) Of(name string) string { return p.said.Of(name) }

func (e *ConfigError) Error() string { return "elector: " + e.of + e.problem() }

func (e *ConfigError) problem() string {
	all := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		all[i] = p.String()
	}
	return strings.Join(all, "\n")
}

func (e *ConfigError) Unwrap() []error { return e.errs }

// configError is the ConfigError of all these errors, which may be joined; nil when there
// is none.
func configError(of string, errs ...error) error {
	e := &ConfigError{of: of}
	e.add(errs)
	if len(e.errs) == 0 {
		return nil
	}
	return e
}

func (e *ConfigError) add(errs []error) {
	for _, err := range errs {
		if err == nil {
			continue
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			e.add(joined.Unwrap())
			continue
		}
		var of *setting.Error
		if !errors.As(err, &of) {
			of = setting.Errorf("", "%w", err)
		}
		e.Problems = append(e.Problems, ConfigProblem{Setting: of.Name, said: of})
		e.errs = append(e.errs, err)
	}
}
