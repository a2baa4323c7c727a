package rediserr

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

const lacksRight = "the Redis user lacks a right that the election needs, see docs/redis.md for the ACL"

// denials are the prefixes of the errors with which a server refuses a request for want of a right. The
// last two are for a command in a script: up to Redis 7.0, and from 7.2 on.
var denials = []string{"NOPERM", "ERR The user executing the script can't", "ERR ACL failure in script"}

// Denied reports whether a Redis refused a request for want of a right.
func Denied(err error) bool {
	for e := err; e != nil; e = errors.Unwrap(e) {
		msg := e.Error()
		if slices.ContainsFunc(denials, func(d string) bool { return strings.HasPrefix(msg, d) }) {
			return true
		}
	}
	return false
}

// missing is the error of a request that a Redis refused for want of these rights, in ACL syntax.
type missing struct {
	rights string
	all    bool // they are all that a candidate needs
	err    error
}

func (e *missing) Error() string {
	if e.all {
		return e.err.Error()
	}
	return "needs " + e.rights + ": " + e.err.Error()
}

func (e *missing) Unwrap() error { return e.err }

// Needs adds to err the rights that the request needs, if it was refused for want of one. The server
// names at most the command: another one, such as that of a login, needs another right.
func Needs(err error, rights string) error {
	if !Denied(err) {
		return err
	}
	if command := deniedCommand.FindStringSubmatch(err.Error()); command != nil && strings.HasPrefix(rights, "+") && !slices.Contains(strings.Fields(rights), "+"+command[1]) {
		return err
	}
	return &missing{rights: rights, err: err}
}

// candidate are the rights of the user mandate in docs/redis.acl.
const candidate = "~mandate:* &mandate:* +eval +evalsha +get +mget +set +del +pexpire +pttl +time +publish +pubsub|numsub +subscribe +unsubscribe " +
	"+xadd +xrevrange +zadd +zremrangebyscore +zrevrange +hset +hget +hgetall +hdel +ping"

// CandidateNeeds adds to err, with which a Redis refused a request of a candidate for want of a right, all rights of
// candidates: who lacks one mostly lacks others, and the server names one at a time, or none.
func CandidateNeeds(err error, prefix string) error {
	if !Denied(err) {
		return err
	}
	if node, ok := errors.AsType[*NodeError](err); ok {
		of := *node
		of.Err = CandidateNeeds(node.Err, prefix)
		return &of
	}
	rights := strings.ReplaceAll(candidate, "mandate:", prefix+":")
	if command := deniedCommand.FindStringSubmatch(err.Error()); len(command) == 2 && !slices.Contains(strings.Fields(rights), "+"+command[1]) {
		rights += " +" + command[1] // such as select
	}
	return &missing{rights: rights, all: true, err: err}
}

// deniedCommand matches a refused command in a server's error, such as 'pubsub|numsub'.
var deniedCommand = regexp.MustCompile(`'([a-z][a-z0-9|._-]*)'`)

// grant returns how to give a user the right that a request lacked: the ACL command for the server, as
// far as user and right are known.
func grant(user string, err error) string {
	see := "docs/redis.md lists what each user needs"
	switch text := err.Error(); {
	case strings.Contains(text, "'select'"):
		see = "or correct the number of the database in the URL; " + see
	case strings.Contains(text, "access") && strings.Contains(text, " key"):
		see = "or correct the prefix; " + see
	}
	var e *missing
	rights, it := "", "it"
	if errors.As(err, &e) {
		rights = e.rights
		if e.all {
			it = "all that candidates need"
		}
		if strings.Contains(rights, " ") { // a selector: for these keys and channels, and not the user's others; a server adds no pattern beside ~* or &*
			rights = "(" + rights + ")"
		}
	} else if command := deniedCommand.FindStringSubmatch(err.Error()); command != nil {
		rights = "+" + command[1]
	}
	switch {
	case user == "" && rights == "":
		return "the Redis user lacks a right; " + see
	case user == "":
		return fmt.Sprintf("the Redis user lacks a right, grant %s: %s; %s", it, rights, see)
	case rights == "":
		return fmt.Sprintf("the Redis user %s lacks a right; %s", user, see)
	}
	return fmt.Sprintf("the Redis user %s lacks a right, grant %s: ACL SETUSER %s %s; %s", user, it, user, rights, see)
}

// UserOf returns the Redis user of a client, default if it has no password and so does not log in, or "" if only the embedding program knows it, by a
// credentials provider. UserOf does not call that provider: it may query a server, and requests of
// other elections wait meanwhile.
func UserOf(c redis.UniversalClient) string {
	user, password, configured := "", "", false
	switch c := c.(type) {
	case *redis.Client:
		o := c.Options()
		user, password, configured = o.Username, o.Password, o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil
	case *redis.ClusterClient:
		o := c.Options()
		user, password, configured = o.Username, o.Password, o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil
	}
	if !configured && (user == "" || password == "") {
		return "default"
	}
	return user
}
