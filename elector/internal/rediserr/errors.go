// Package rediserr explains the errors of Redis servers: which of them waiting will not fix, which
// right is missing, and what to do about it.
package rediserr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// NodeError is the error of one node. Its text includes what to do about it, if that
// is known.
type NodeError struct {
	Node   string
	User   string // the Redis user, if the node refused the request for want of a right
	TLS    bool
	Silent bool // nothing was ever received from the node, also no TLS handshake
	Err    error
}

func (e *NodeError) Error() string { return e.Node + ": " + e.Problem() }

// Problem returns the error's text without the node, and what to do about it where the text does not
// suggest that itself, as those of the operating system and of DNS do.
func (e *NodeError) Problem() string {
	var system syscall.Errno
	var name *net.DNSError
	plain := (TimedOut(e.Err) || errors.As(e.Err, &system) || errors.As(e.Err, &name)) && e.wrongPort() == ""
	if a := e.Advice(); a != "" && !plain {
		return e.Answer() + " (" + a + ")"
	}
	return e.Answer()
}

// Advice returns what to do about the error, or "" if that is not known.
func (e *NodeError) Advice() string {
	advice := Advice(e.Err)
	if advice == lacksRight {
		return Grant(e.User, e.Err)
	}
	return cmp.Or(e.wrongPort(), strings.ReplaceAll(advice, "{node}", e.Node))
}

// wrongPort returns what to do about a server of which the port may speak TLS, or not speak it; else "".
func (e *NodeError) wrongPort() string {
	switch {
	case e.Silent && e.TLS && TimedOut(e.Err):
		return "if this port speaks no TLS, write redis:// in place of rediss://; otherwise look for a process that hangs there, or a firewall"
	case e.Silent && !e.TLS && (errors.Is(e.Err, io.EOF) || errors.Is(e.Err, syscall.ECONNRESET) || errors.Is(e.Err, syscall.EPIPE)):
		return "if this port speaks TLS, write rediss:// in place of redis://; if it is a proxy that refuses HELLO, add ?protocol=2"
	}
	return ""
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

// remedies are what to do about the errors of servers and of the network: the only such list. {node} is
// the node's name. The first sign that is found counts. Waiting will not fix the permanent ones, whose sign begins the error.
var remedies = []struct {
	sign, advice string
	permanent    bool
}{
	{foreignKey, "if another version of mandate wrote it, use that; if nothing uses it, remove it; or choose another prefix", true},
	{"ERR Protocol error: unauthenticated", "give the password: " + login, true},
	{"NOAUTH", "give the password: " + login, true},
	{"DENIED", "give it a password (requirepass, or an ACL user); or set protected-mode no where the network is trusted", true},
	{"WRONGPASS", "check user and password", true},
	{"ERR invalid password", "check the password", true},
	{"ERR AUTH", "check user and password", true},
	{"CROSSSLOT", "don't put a hash tag into the prefix", true},
	{"WRONGTYPE", "if nothing uses the key of another type, remove it; or choose another prefix", true},
	{"ERR unknown command", "enable that command (rename-command disables it); a server that can't run scripts, such as a Sentinel, can't be used", true},
	{"READONLY", "it is a replica: promote it (REPLICAOF NO ONE), or give the address of the master", false},
	{"MASTERDOWN", "it is a replica without its master: give the address of the master", false},
	{"NOREPLICAS", "start its replicas, or connect them again: without them it refuses writes, so that no leader continues at a master that was replaced", false},
	{"MOVED ", "it is a node of a Redis Cluster: write redis+cluster:// in the URL", false},
	{"CLUSTERDOWN", "see what the Cluster lacks: redis-cli CLUSTER INFO, and CLUSTER NODES", false},
	{"OOM ", "give this Redis more memory, or make room", false},
	{"MISCONF", "fix the disk of this Redis: it refuses writes because it cannot save", false},
	{"LOADING", "wait: it is reading its data", false},
	{"BUSY Redis", "a script runs for too long: redis-cli SCRIPT KILL", false},
	{"max number of clients", "raise maxclients, or find out who holds the connections: redis-cli CLIENT LIST", false},
	{"know no master named", "correct ?master_name=; redis-cli -p 26379 SENTINEL MASTERS lists the names", false},
	{"first record does not look like a TLS handshake", "this port speaks no TLS: write redis://", false},
	{"certificate signed by unknown authority", "name the file with the authority's certificate: ?ca_file=", false},
	{"certificate is not trusted", "name the file with the authority's certificate: ?ca_file=", false},
	{"certificate is valid for", "give a name of the certificate: &server_name=", false},
	{"cannot validate certificate for", "give a name of the certificate: &server_name=", false},
	{"certificate is not valid for any names", "renew the certificate of this Redis with its name in it", false},
	{"certificate has expired", "renew the certificate of this Redis, or correct the clock of this machine", false},
	{"tls: certificate required", "name the files of the client's certificate: ?cert_file=&key_file=", false},
	{"tls: bad certificate", "name the files of a client's certificate that this Redis accepts: ?cert_file=&key_file=", false},
	{"tls: unknown certificate authority", "name the files of a client's certificate that this Redis accepts: ?cert_file=&key_file=", false},
	{"redis: invalid reply", "what answers is no Redis: correct host and port", false},
	{"redis: can't parse", "what answers is no Redis: correct host and port", false},
	{"connection refused", "start Redis at {node}, or correct host and port", false},
	{"no such host", "correct the host name, or DNS on this machine", false},
	{"server misbehaving", "correct the host name, or DNS on this machine", false},
	{"no route to host", "look at the network to that host, and at firewalls", false},
	{"network is unreachable", "look at the network of this machine", false},
	{"connect: no such file or directory", "start Redis, or correct the path of its socket", false},
	{"connect: permission denied", "let this user open the socket: unixsocketperm, and the rights of its folder", false},
}

const login = "redis://[user:password@]host"

// Permanent reports whether waiting will not fix err, so that an operator has to change
// the configuration.
func Permanent(err error) bool {
	_, permanent := look(err)
	return permanent || errors.Is(err, ErrSameServer)
}

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
	advice, _ := look(err)
	return advice
}

// AdviceFor is Advice for an error of which only the text is left.
func AdviceFor(text string) string { return Advice(errors.New(text)) }

// look looks for err among the remedies.
func look(err error) (advice string, permanent bool) {
	if Denied(err) {
		return lacksRight, true
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		msg := e.Error()
		for _, r := range remedies {
			switch {
			case r.permanent && !strings.HasPrefix(msg, r.sign), !strings.Contains(msg, r.sign):
			case r.sign == foreignKey:
				return inspect(msg) + r.advice, true
			default:
				return r.advice, r.permanent
			}
		}
	}
	if TimedOut(err) {
		return "look for a process that hangs at {node}, a slow network, or a firewall that drops what is sent there", false
	}
	return "", false
}

// Missing reports whether a server has answered that a key does not exist. errors.Is would also find the
// answer of a sentinel that it knows no master, in the error of a connection that was not made.
func Missing(err error) bool { return err == redis.Nil } //nolint:errorlint // see above
