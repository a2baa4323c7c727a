// Package rediserr explains the errors of Redis servers: which of them waiting will not fix, which
// right is missing, and what to do about it.
package rediserr

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// NodeError is the error of one node. Its text includes what to do about it, if that
// is known.
type NodeError struct {
	Node string
	User string // the Redis user, if the node refused the request for want of a right
	Err  error
}

func (e *NodeError) Error() string { return e.Node + ": " + e.Problem() }

// Problem returns the error's text without the node.
func (e *NodeError) Problem() string {
	if a := e.Advice(); a != "" {
		return e.Answer() + " (" + a + ")"
	}
	return e.Answer()
}

// Advice returns what to do about the error, or "" if that is not known.
func (e *NodeError) Advice() string {
	if a := Advice(e.Err); a != lacksRight {
		return a
	}
	return Grant(e.User, e.Err)
}

// Answer returns what the node answered, or why there was no answer.
func (e *NodeError) Answer() string {
	msg := withoutPosition(e.Err.Error())
	if _, after, found := strings.Cut(msg, e.Node+": "); found && connectionError.MatchString(msg) { // it names the node already
		msg = after
	}
	if TimedOut(e.Err) {
		msg = noAnswer
	}
	return msg
}

// connectionError matches the begin of a connection's errors, which name its addresses.
var connectionError = regexp.MustCompile(`^(dial|read|write) (tcp|unix) `)

const noAnswer = "no answer in time"

// TimedOut reports whether there was no answer in time.
func TimedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// Cause returns in a few words why a node did not answer, without its address: the error of
// the operating system, if it reported one.
func Cause(err error) string {
	var system *os.SyscallError
	var code syscall.Errno
	switch {
	case TimedOut(err):
		return noAnswer
	case errors.As(err, &system):
		return system.Err.Error()
	case errors.As(err, &code):
		return code.Error()
	}
	var node *NodeError
	if errors.As(err, &node) {
		return node.Problem()
	}
	return err.Error()
}

// position matches the position in a script at which a command failed, which does not help operators.
var position = regexp.MustCompile(`(ERR )?user_script:\d+: |,? ?(script: [0-9a-f]{40})?,? on @?user_script:\d+\.?`)

func withoutPosition(msg string) string {
	if !strings.Contains(msg, "user_script") {
		return msg
	}
	return strings.TrimSpace(position.ReplaceAllString(msg, ""))
}

func (e *NodeError) Unwrap() error { return e.Err }

// ErrSameServer means that one server answered under two of the addresses.
var ErrSameServer = errors.New("this Redis is listed twice, under different addresses: each vote needs its own Redis")

// foreignKey begins the errors about a key whose value is not ours, both of the scripts and of
// reads; the key's name follows.
const foreignKey = "MANDATE key "

// foreignError is such an error of a read. Like that of a script, it counts as an answer of the
// node.
type foreignError struct{ key, holds string }

// ForeignKey returns the error of a key whose value is not ours. In a NodeError it is shown with what
// to do about it.
func ForeignKey(key, holds string) error { return &foreignError{key, holds} }

func (e *foreignError) Error() string { return foreignKey + e.key + " " + e.holds }

// RedisError makes it a redis.Error: the node has answered.
func (*foreignError) RedisError() {}

// Refusal is the server's error because of which a script could not do its work for one election.
type Refusal string

func (e Refusal) Error() string { return string(e) }

// RedisError makes it a redis.Error: the node has answered.
func (Refusal) RedisError() {}

// Answered reports whether an error is an answer of a node, which therefore is up and reachable.
func Answered(err error) bool {
	var answer redis.Error
	var turned TurnedAway
	return errors.As(err, &answer) || errors.As(err, &turned)
}

// inspect returns how to find out what a foreign key holds.
func inspect(msg string) string {
	key, _, _ := strings.Cut(strings.TrimPrefix(msg, foreignKey), " ")
	return fmt.Sprintf("see what it holds with redis-cli TYPE %s, and GET %s if that is a string; ", key, key)
}

// remedies lists the errors that waiting will not fix, by prefix, with what to do about each.
var remedies = []struct{ prefix, advice string }{
	{"ERR Protocol error: unauthenticated", "give the password: redis://user:password@host"},
	{"NOAUTH", "give the password: redis://user:password@host"},
	{"DENIED", "give it a password (requirepass, or an ACL user); or set protected-mode no where the network is trusted"},
	{"WRONGPASS", "check user and password"},
	{"ERR invalid password", "check the password"},
	{"ERR AUTH", "check user and password"},
	{"CROSSSLOT", "don't put a hash tag into the prefix"},
	{"WRONGTYPE", "remove the key of another type, or choose another prefix"},
	{foreignKey, "remove that key, or choose another prefix"},
	{"ERR unknown command", "this server is no Redis that can run scripts"},
}

// Permanent reports whether waiting will not fix err, so that an operator has to change
// the configuration.
func Permanent(err error) bool { return Advice(err) != "" || errors.Is(err, ErrSameServer) }

// RefusedSubscribe reports whether err means that a node will never send messages. A refused
// UNSUBSCRIBE or PING does not: it costs a message at most.
func RefusedSubscribe(err error) bool { return Permanent(err) && !refusedOther(err) }

// refusedOther reports whether a Redis refused UNSUBSCRIBE or PING: its error has the command
// in quotes.
func refusedOther(err error) bool {
	text := strings.ToLower(err.Error())
	return Denied(err) && (strings.Contains(text, "'unsubscribe'") || strings.Contains(text, "'ping'"))
}

// WrongType reports whether a Redis refused a request because a key is of another type.
func WrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

// Advice returns what to do about err, or "" if that is not known.
func Advice(err error) string {
	if Denied(err) {
		return lacksRight
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		msg := e.Error()
		for _, r := range remedies {
			if strings.HasPrefix(msg, r.prefix) {
				if r.prefix == foreignKey {
					return inspect(msg) + r.advice
				}
				return r.advice
			}
		}
	}
	return ""
}
