package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// command returns a mandate command to type next, for the same elections. All commands that are
// suggested to operators are made here.
func (f nextFlags) command(verb string, args ...string) string {
	text := "mandate " + verb
	for _, arg := range args {
		text += " " + shellWord(arg)
	}
	return text + string(f)
}

// shellWord quotes a word for the shell if necessary.
func shellWord(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@%+-") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// givenFlags returns the flags of this command line that choose the elections. Environment
// variables also apply to the next command. If a URL holds a password, no URL is included: a part
// of the list would be another quorum.
func (a *app) givenFlags(flags *pflag.FlagSet) nextFlags {
	text := ""
	if f := flags.Lookup("prefix"); f != nil && f.Changed {
		text += " --prefix " + shellWord(a.prefix)
	}
	if holdPassword(a.redis) {
		return nextFlags(text)
	}
	for _, url := range a.redis {
		text += " --redis " + shellWord(url)
	}
	return nextFlags(text)
}
