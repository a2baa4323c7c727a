// Package rediserr explains what a Redis server refused: which error waiting does not cure, which right is missing,
// and what to do about it.
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

	"github.com/mandate-dev/mandate/elector/internal/conns"
)

// NodeError is what one node answered instead of a vote, with what to do about
// it where that is known.
type NodeError struct {
	Node string
	User string // the node's name of the one who asked, where it refused that for want of a right
	Err  error
}

func (e *NodeError) Error() string { return e.Node + ": " + e.Problem() }

// Problem is the error without the node.
func (e *NodeError) Problem() string {
	if a := e.Advice(); a != "" {
		return e.Answer() + " (" + a + ")"
	}
	return e.Answer()
}

// Advice is what to do about it, empty when that is not known.
func (e *NodeError) Advice() string {
	if a := Advice(e.Err); a != lacksRight {
		return a
	}
	return Grant(e.User, e.Err)
}

// Answer is what the node answered, or why it did not.
func (e *NodeError) Answer() string {
	msg := withoutPosition(e.Err.Error())
	if _, after, found := strings.Cut(msg, e.Node+": "); found && connectionError.MatchString(msg) { // it is named already
		msg = after
	}
	if timedOut(e.Err) {
		msg = noAnswer
	}
	return msg
}

// connectionError begins the errors of a connection, which name its ends.
var connectionError = regexp.MustCompile(`^(dial|read|write) (tcp|unix) `)

const noAnswer = "no answer in time"

func timedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// Cause is why a node did not answer, in a few words, without its address: that of the
// operating system, where the request or the connection failed.
func Cause(err error) string {
	var system *os.SyscallError
	var code syscall.Errno
	switch {
	case timedOut(err):
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

// position is where in a script of ours a command failed: it means nothing to an operator.
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

// foreignKey begins what is reported of a key that holds no value of ours, by the scripts
// and by reads alike; the key's name follows.
const foreignKey = "MANDATE key "

// foreignError is what a read found under a key, in the words of the scripts. Like theirs
// it is an answer of the node.
type foreignError struct{ key, holds string }

// ForeignKey is the error of a key that holds what none of ours does. Below a NodeError it is shown with what to do.
func ForeignKey(key, holds string) error { return &foreignError{key, holds} }

func (e *foreignError) Error() string { return foreignKey + e.key + " " + e.holds }

// RedisError makes it a redis.Error.
func (*foreignError) RedisError() {}

// Refusal is why a script could not do its work for one election, in the words of the server.
type Refusal string

func (e Refusal) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (Refusal) RedisError() {}

// Answered reports whether an error is one that a node answered with: it is up and can be reached.
func Answered(err error) bool {
	var answer redis.Error
	var turned conns.TurnedAway
	return errors.As(err, &answer) || errors.As(err, &turned)
}

// inspect is how to find out what a foreign key holds.
func inspect(msg string) string {
	key, _, _ := strings.Cut(strings.TrimPrefix(msg, foreignKey), " ")
	return fmt.Sprintf("see what it holds with redis-cli TYPE %s, and GET %s if that is a string; ", key, key)
}

// remedies of troubles that waiting does not cure.
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

// Permanent reports whether waiting will not fix err: an operator has to change the
// configuration.
func Permanent(err error) bool { return Advice(err) != "" || errors.Is(err, ErrSameServer) }

// RefusedSubscribe reports whether a node will send no messages, however long they are waited for. A
// refused UNSUBSCRIBE costs a message at most.
func RefusedSubscribe(err error) bool { return Permanent(err) && !refusedUnsubscribe(err) }

// refusedUnsubscribe reports whether a Redis refused to end a subscription: it names the
// command in quotes.
func refusedUnsubscribe(err error) bool {
	return Denied(err) && strings.Contains(strings.ToLower(err.Error()), "'unsubscribe'")
}

// WrongType reports whether a Redis found a key to be of another type than it must be.
func WrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

// Advice is what to do about err; empty when it is not known.
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
