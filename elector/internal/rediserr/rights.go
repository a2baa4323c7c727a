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
	err    error
}

func (e *missing) Error() string { return "needs " + e.rights + ": " + e.err.Error() }
func (e *missing) Unwrap() error { return e.err }

// Needs adds to err the rights that the request needs, if it was refused for want of one. The server
// names at most the command: another one, such as that of a login, needs another right.
func Needs(err error, rights string) error {
	if !Denied(err) {
		return err
	}
	if command := deniedCommand.FindStringSubmatch(err.Error()); command != nil && strings.HasPrefix(rights, "+") && !strings.HasPrefix(rights, "+"+command[1]) {
		return err
	}
	return &missing{rights, err}
}

// Named reports whether Needs has already added the rights to err.
func Named(err error) bool {
	var e *missing
	return errors.As(err, &e)
}

// NamesCommand reports whether the server's error names the command that it refused.
func NamesCommand(err error) bool { return deniedCommand.MatchString(err.Error()) }

// deniedCommand matches a refused command in a server's error, such as 'pubsub|numsub'.
var deniedCommand = regexp.MustCompile(`'([a-z][a-z0-9|._-]*)'`)

// Grant returns how to give a user the right that a request lacked: the ACL command for the server, as
// far as user and right are known.
func Grant(user string, err error) string {
	all := "docs/redis.md lists what each user needs"
	switch text := err.Error(); {
	case strings.Contains(text, "'select'"):
		all = "or correct the number of the database in the URL; " + all
	case strings.Contains(text, "access") && strings.Contains(text, " key"):
		all = "or correct the prefix; " + all
	}
	var e *missing
	rights := ""
	if errors.As(err, &e) {
		rights = e.rights
		if strings.Contains(rights, " ") { // a selector: grants the command for this key or channel, not for the user's others
			rights = "(" + rights + ")"
		}
	} else if command := deniedCommand.FindStringSubmatch(err.Error()); command != nil {
		rights = "+" + command[1]
	}
	switch {
	case user == "" && rights == "":
		return "the Redis user lacks a right; " + all
	case user == "":
		return fmt.Sprintf("the Redis user lacks a right, grant it %s; %s", rights, all)
	case rights == "":
		return fmt.Sprintf("the Redis user %s lacks a right; %s", user, all)
	}
	return fmt.Sprintf("the Redis user %s lacks a right, grant it: ACL SETUSER %s %s; %s", user, user, rights, all)
}

// GrantAll returns the ACL command that gives a user all refused commands, each given as "COMMAND:
// reason". Empty: one of them was not refused for want of a right, or the user is not known.
func GrantAll(user string, refused []string) string {
	line := "ACL SETUSER " + user
	for _, r := range refused {
		tried, why, _ := strings.Cut(r, ": ")
		if !Denied(errors.New(why)) {
			return ""
		}
		rule := strings.ToLower(tried)
		if tried == "PUBSUB" {
			rule = "pubsub|numsub"
		}
		line += " +" + rule
	}
	if user == "" || len(refused) == 0 {
		return ""
	}
	return line
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
