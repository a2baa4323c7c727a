package rediserr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// What servers and the network say, and what to do: the one list. Of what nobody knows it says nothing.
func TestAdvice(t *testing.T) {
	for msg, want := range map[string]string{
		"READONLY You can't write against a read only replica.":                                            "REPLICAOF NO ONE",
		"OOM command not allowed when used memory > 'maxmemory'.":                                          "more memory",
		"ERR Error running script (call to f_1): @user_script:1: OOM command not allowed":                  "more memory",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.": "disk",
		"NOREPLICAS Not enough good replicas to write.":                                                    "start its replicas",
		"CLUSTERDOWN The cluster is down":                                                                  "CLUSTER INFO, and CLUSTER NODES",
		"CLUSTERDOWN Hash slot not served":                                                                 "CLUSTER INFO",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                 "address of the master",
		"MOVED 1 10.0.0.1:6379":                                                                            "redis+cluster://",
		"LOADING Redis is loading":                                                                         "wait",
		"ERR max number of clients reached":                                                                "raise maxclients",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":           "SCRIPT KILL",
		"ERR unknown command 'SUBSCRIBE'":                                                                  "rename-command",
		"WRONGPASS invalid username-password pair":                                                         "user and password",
		"NOAUTH Authentication required.":                                                                  "give the password",
		"tls: failed to verify certificate: x509: certificate signed by unknown authority":                 "?ca_file=",
		"tls: failed to verify certificate: x509: certificate is valid for a, not b":                       "&server_name=",
		"x509: cannot validate certificate for 10.0.0.1 because it doesn't contain any IP SANs":            "&server_name=",
		"x509: certificate has expired or is not yet valid: current time is":                               "clock of this machine",
		"remote error: tls: certificate required":                                                          "?cert_file=",
		"tls: first record does not look like a TLS handshake":                                             "speaks no TLS",
		`redis: invalid reply: "<!DOCTYPE HTML>\n"`:                                                        "no Redis",
		`redis: can't parse "HTTP/1.1 400 Bad Request"`:                                                    "no Redis",
		"dial tcp 127.0.0.1:1: connect: connection refused":                                                "start Redis at n,",
		"dial tcp: lookup nosuch on 127.0.0.53:53: no such host":                                           "DNS",
		"dial unix /run/redis.sock: connect: no such file or directory":                                    "path of its socket",
		`the sentinels know no master named "m"`:                                                           "SENTINEL MASTERS",
		"EOF":                                                                                              "",
		"connection reset by peer":                                                                         "",
		"ERR value is not an integer or out of range":                                                      "",
		"BUSYGROUP Consumer Group name already exists":                                                     "",
	} {
		got := (&NodeError{Node: "n", Err: fmt.Errorf("wrapped: %w", errors.New(msg))}).Advice()
		if !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%q: %q, want %q", msg, got, want)
		}
	}
	slow := &NodeError{Node: "n", Err: context.DeadlineExceeded}
	if got := slow.Error(); got != "n: no answer in time" || !strings.Contains(slow.Advice(), "hangs at n") {
		t.Errorf("%q, %q", got, slow.Advice())
	}
	slow.Silent, slow.TLS = true, true
	if got := slow.Error(); !strings.Contains(got, "speaks no TLS, write redis://") {
		t.Errorf("%q", got)
	}
}

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
