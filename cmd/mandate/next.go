package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// command is a command of mandate to type next, on the same elections. All
// commands that operators are shown are made here.
func (f nextFlags) command(verb string, args ...string) string {
	text := "mandate " + verb
	for _, arg := range args {
		text += " " + shellWord(arg)
	}
	return text + string(f)
}

// shellWord is a word as it can be typed.
func shellWord(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@%+-") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// givenFlags are those of a command line. What comes from the environment is there for the
// next command, too. No URL is given when one holds a password: a part of the list would be
// another quorum.
func (a *app) givenFlags(flags *pflag.FlagSet) nextFlags {
	text := ""
	for _, name := range []string{"config", "context", "prefix", "redis-file", "redis-password-file", "redis-ca", "redis-cert", "redis-key"} {
		if f := flags.Lookup(name); f != nil && f.Changed {
			text += " --" + name + " " + shellWord(f.Value.String())
		}
	}
	if c := (redisContext{Redis: a.redis}); c.holdsPassword() {
		return nextFlags(text)
	}
	for _, url := range a.redis {
		text += " --redis " + shellWord(url)
	}
	return nextFlags(text)
}
