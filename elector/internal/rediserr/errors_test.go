package rediserr

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// What real servers say, and whether waiting helps.
func TestPermanent(t *testing.T) {
	for msg, says := range map[string]string{
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                        "lacks a right",
		"ERR The user executing the script can't run this command or subcommand script: 01bbd37e, on @user_script:43.":            "lacks a right", // Redis 7.0
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments":              "lacks a right",
		"ERR ACL failure in script: User mandate has no permissions to run the 'get' command script: 01bbd37e, on @user_script:5": "lacks a right", // from 7.2 on
		"WRONGPASS invalid username-password pair or user is disabled.":                                                           "check user and password",
		"NOAUTH Authentication required.": "give the password",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.": "",
		"READONLY You can't write against a read only replica.":                                            "",
		"CLUSTERDOWN The cluster is down":                                                                  "",
		"ERR max number of clients reached":                                                                "",
		"LOADING Redis is loading the dataset in memory":                                                   "",
		"OOM command not allowed when used memory > 'maxmemory'.":                                          "",
	} {
		err := &NodeError{Node: "n", Err: fmt.Errorf("wrapped: %w", errors.New(msg))}
		if got := Permanent(err); got != (says != "") {
			t.Errorf("%s: permanent: %v", msg, got)
		}
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q does not say %q", err, says)
		}
	}
}

func TestRefusedOther(t *testing.T) {
	for msg, want := range map[string]bool{
		"NOPERM this user has no permissions to run the 'unsubscribe' command":                true,
		"NOPERM User mandate has no permissions to run the 'unsubscribe' command":             true,
		"NOPERM this user has no permissions to run the 'ping' command":                       true,
		"NOPERM this user has no permissions to run the 'subscribe' command":                  false,
		"NOPERM this user has no permissions to access one of the channels used as arguments": false,
		"ERR 'unsubscribe'": false,
	} {
		if got := refusedOther(errors.New(msg)); got != want {
			t.Errorf("%s: %v", msg, got)
		}
	}
}

// A server that ends the connection with a line of its own is there: to bring it back helps nothing.
func TestRefusedConnectionIsAnswered(t *testing.T) {
	for err, want := range map[error]bool{
		TurnedAway("DENIED Redis is running in protected mode"): true,
		errors.New("connection reset by peer"):                  false,
	} {
		if got := Answered(&NodeError{Node: "n", Err: fmt.Errorf("wrapped: %w", err)}); got != want {
			t.Errorf("%v: answered: %v", err, got)
		}
	}
}
