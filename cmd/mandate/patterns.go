package main

import (
	"path"
	"slices"
	"strings"
)

// checkPatterns records invalid patterns.
func (a *app) checkPatterns(patterns []string) {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			a.problem("%q is not a pattern: a [ must be closed; \\[ stands for itself", p)
		}
	}
}

// matching returns the names that match one of the patterns, or all if there are none.
func matching(names, patterns []string) []string {
	if len(patterns) == 0 {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !slices.ContainsFunc(patterns, func(p string) bool {
			ok, _ := path.Match(strings.ReplaceAll(p, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00")) // so that * also matches /
			return ok
		})
	})
}
