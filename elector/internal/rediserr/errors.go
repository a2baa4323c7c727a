// Package rediserr explains the errors of Redis servers: which of them waiting will not fix, which
// right is missing, and what to do about it.
package rediserr

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// NodeError is the error of one node.
type NodeError struct {
	Node   string // as its list of nodes names it
	User   string // the Redis user, if the node refused the request for want of a right
	TLS    bool   // the list says that its port speaks TLS
	Silent bool   // nothing was ever received from the node, also no TLS handshake
	Err    error  // the node's answer, or why there is none
}

func (e *NodeError) Error() string { return e.Node + ": " + e.Problem() }

// Problem returns the error's text without the node, and what to do about it where the text does not
// suggest that itself, as those of the operating system and of DNS do.
func (e *NodeError) Problem() string {
	plain := (TimedOut(e.Err) || errors.As(e.Err, new(syscall.Errno)) || errors.As(e.Err, new(*net.DNSError))) && e.wrongPort() == ""
	if a := e.Advice(); a != "" && !plain {
		return e.Answer() + " (" + a + ")"
	}
	return e.Answer()
}

// Advice returns what to do about the error, or "" if that is not known.
func (e *NodeError) Advice() string {
	advice, at := Advice(e.Err), e.Node
	if advice == lacksRight {
		return grant(e.User, e.Err)
	}
	if dial, ok := errors.AsType[*net.OpError](e.Err); ok && dial.Addr != nil && strings.HasPrefix(at, "cluster ") { // its others may be up
		at, advice = dial.Addr.String(), strings.Replace(advice, ", or correct", ofSlot+", or correct", 1)
	}
	return cmp.Or(e.wrongPort(), strings.ReplaceAll(advice, "{node}", at))
}

// wrongPort returns what to do about a server of which the port may speak TLS, or not speak it; else "".
func (e *NodeError) wrongPort() string {
	switch {
	case e.Silent && e.TLS && TimedOut(e.Err):
		return "if this port speaks no TLS, write redis:// in place of rediss://; otherwise look for a process that hangs there, or a firewall"
	case e.Silent && !e.TLS && (errors.Is(e.Err, io.EOF) || errors.Is(e.Err, syscall.ECONNRESET) || errors.Is(e.Err, syscall.EPIPE)):
		return "if this port speaks TLS, write rediss:// in place of redis://; a proxy also closes if nothing answers behind it, or if it knows no HELLO (twemproxy)"
	}
	return ""
}

// Answer returns what the node answered, or why there was no answer.
func (e *NodeError) Answer() string {
	msg := strings.TrimSpace(position.ReplaceAllString(e.Err.Error(), ""))
	if TimedOut(e.Err) {
		msg = unanswered(e.Err)
	}
	if _, after, found := strings.Cut(msg, e.Node+": "); found && connectionError.MatchString(msg) { // it names the node already
		msg = after
	}
	return msg
}

// connectionError matches the begin of a connection's errors, which name its addresses.
var connectionError = regexp.MustCompile(`^(dial|read|write) (tcp|unix) `)

const noAnswer = "no answer in time"

// unanswered returns the text of an error that there was no answer in time: to what, where a connection was to be made.
func unanswered(err error) string {
	var lookup *net.DNSError
	var dial *net.OpError
	to := ""
	switch {
	case errors.As(err, &lookup):
		to = lookup.Name
	case errors.As(err, &dial) && dial.Op == "dial" && dial.Addr != nil:
		to = dial.Addr.String()
	default:
		return noAnswer
	}
	before, _, _ := strings.Cut(err.Error(), to)
	return before + to + ": " + noAnswer
}

// TimedOut reports whether there was no answer in time.
func TimedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// position matches the position in a script at which a command failed, which does not help operators.
var position = regexp.MustCompile(`(ERR )?user_script:\d+: |,? ?(script:( [0-9a-f]{40},)?)? on @?user_script:\d+\.?`)

func (e *NodeError) Unwrap() error { return e.Err }

// ErrSameServer means that one server answered under two of the addresses.
var ErrSameServer = errors.New("this Redis is listed twice, under different addresses: each vote needs its own Redis")

// foreignKey begins the errors about a key whose value is not ours, both of the scripts and of
// reads; the key's name follows.
const foreignKey = "MANDATE key "

// ForeignKey returns the error of a read of a key whose value is not ours. In a NodeError it is shown with what
// to do about it.
func ForeignKey(key, holds string) error { return Refusal(foreignKey + key + " " + holds) }

// Refusal is an answer because of which a script, or a read, could not do its work for one election.
type Refusal string

func (e Refusal) Error() string { return string(e) }

// RedisError makes it a redis.Error: the node has answered.
func (Refusal) RedisError() {}

// Answered reports whether an error is an answer of a node, which therefore is up and reachable.
func Answered(err error) bool {
	return errors.As(err, new(redis.Error)) || errors.As(err, new(TurnedAway))
}

// Missing reports whether a server has answered that a key does not exist. errors.Is would also find the
// answer of a sentinel that it knows no master, in the error of a connection that was not made.
func Missing(err error) bool { return err == redis.Nil } //nolint:errorlint // see above
