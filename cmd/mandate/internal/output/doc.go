// Package output formats what the commands print: tables, JSON, shortened names, wrapped texts and
// durations. Everything that it prints is safe for a terminal: names from Redis may have been
// chosen by anyone who may write there.
package output
