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

// denials begin the errors of a server that refuses a request for want of a right; the last two are of a command inside of
// a script, up to Redis 7.0 and from 7.2 on.
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

// missing is a request that a Redis refused for want of rights, in the words of an ACL.
type missing struct {
	rights string
	err    error
}

func (e *missing) Error() string { return "needs " + e.rights + ": " + e.err.Error() }
func (e *missing) Unwrap() error { return e.err }

// Needs names the rights that a request lacked: the server names the command at most.
func Needs(err error, rights string) error {
	if !Denied(err) {
		return err
	}
	return &missing{rights, err}
}

// Named reports whether an error names the right already.
func Named(err error) bool {
	var e *missing
	return errors.As(err, &e)
}

// NamesCommand reports whether a server has named the command that it refused.
func NamesCommand(err error) bool { return deniedCommand.MatchString(err.Error()) }

// deniedCommand is the command that a server may not run, as it names it: 'pubsub|numsub', for example.
var deniedCommand = regexp.MustCompile(`'([a-z][a-z0-9|._-]*)'`)

// Grant is what gives a user the right that a request lacked: as far as that is known, the line for the server.
func Grant(user string, err error) string {
	const all = "docs/redis.md lists what each user needs"
	var e *missing
	rights := ""
	if errors.As(err, &e) {
		rights = e.rights
		if strings.Contains(rights, " ") { // a selector: the command is not granted together with what else the user may name
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

// GrantAll is the line for a server that gives a user all commands that it was refused (each with why). Empty: one of them was not
// refused for want of a right, or the user is not known.
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

// UserOf is whom a node takes a client for, empty when only the embedding program knows. It does not ask that:
// a program may ask a server, and requests of others wait here.
func UserOf(c redis.UniversalClient) string {
	user, configured := "", false
	switch c := c.(type) {
	case *redis.Client:
		o := c.Options()
		user, configured = o.Username, o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil
	case *redis.ClusterClient:
		o := c.Options()
		user, configured = o.Username, o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil
	}
	if user == "" && !configured {
		return "default"
	}
	return user
}
