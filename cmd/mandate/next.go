package main

import "strings"

// nextFlags are the flags of this command line that choose the elections, ready to be appended to a
// suggested command, which without them would act on another Redis.
type nextFlags string

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
