package rediserr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

type said struct {
	text, advice string
	permanent    bool
}

// texts are errors as they came: from redis-server 7.0.15 and 8.0.6, valkey-server 8.1.1 and 9.1.2, their Sentinels and
// Clusters, all of which send the text where no version is given; from Go's net and crypto/tls against such a server; and,
// where by says so, as the source of a proxy has them. permanent: waiting does not help.
var texts = []said{
	// Login and rights.
	{"NOAUTH Authentication required.", "give the password", true},
	{"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time", "give the password", true},
	{"WRONGPASS invalid username-password pair or user is disabled.", "user and password", true},
	{"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?", "leave it out", true},
	{"ERR invalid password", "check the password", true},                   // Envoy
	{"ERR Client sent AUTH, but no password is set", "leave it out", true}, // Envoy, twemproxy
	{"ERR Protocol error: unauthenticated multibulk length", "give the password", true},
	{"DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user.", "requirepass", true},
	{"DENIED Running in protected mode because protected mode is enabled and no password is set for the default user.", "requirepass", true}, // Valkey
	{"NOPERM this user has no permissions to run the 'evalsha' command", "lacks a right", true},                                              // 7.0
	{"NOPERM User app has no permissions to run the 'evalsha' command", "lacks a right", true},                                               // from 7.2 on
	{"NOPERM this user has no permissions to access one of the channels used as arguments", "lacks a right", true},
	{"NOPERM No permissions to access a channel", "lacks a right", true},
	{"ERR The user executing the script can't run this command or subcommand script: 756928dd1246249109cfe8475bfa267e967ea948, on @user_script:1.", "lacks a right", true},
	{"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments", "lacks a right", true},
	{"ERR The user executing the script can't publish to the channel mentioned in the command", "lacks a right", true},
	{"ERR ACL failure in script: User app has no permissions to run the 'hset' command script: 1d2a272864daaefa08e6929b7a0a39d182a2e466, on @user_script:1.", "lacks a right", true},

	// Another kind of server than the address says.
	{"ERR DB index is out of range", "number of the database", true},
	{"ERR Only 0th database is supported! Selected DB: 1", "number of the database", true}, // Upstash
	{"ERR SELECT is not allowed in cluster mode", "redis+cluster://", true},
	{"ERR This instance has cluster support disabled", "write redis:// in place of redis+cluster://", true},
	{"ERR unknown command 'evalsha', with args beginning with: '78dce3abefa4a3c14eabef8bd3d832af680a8604' '6' 'mandate:{e}:lock' ", "redis+sentinel://host:26379?master_name=NAME; otherwise enable", true},
	{"ERR unknown command 'select', with args beginning with: '2' ", "redis+sentinel://", true},
	{"ERR unknown command 'cluster', with args beginning with: 'slots' ", "redis+sentinel://", true},
	{"redis: all sentinels specified in configuration are unreachable: ERR unknown command 'sentinel', with args beginning with: 'get-master-addr-by-name' 'm' ", "it is no Sentinel: write redis://", false},
	{"redis: all sentinels specified in configuration are unreachable: NOAUTH Authentication required.\ndial tcp 127.0.0.1:1: connect: connection refused", "give the password", false},
	{"ERR Only HELLO messages are accepted by Sentinel instances.", "redis+sentinel://", true},
	{"ERR Unknown Redis command called from script script: 6e041675a6f3a8f9dfa5530a2a6601958df04a77, on @user_script:1.", "rename-command", true},
	{"ERR Unknown command called from script script: on @user_script:1.", "rename-command", true}, // Valkey 9
	{"MOVED 12539 127.0.0.1:7001", "redis+cluster://", false},
	{"CROSSSLOT Keys in request don't hash to the same slot", "hash tag", true},
	{"WRONGTYPE Operation against a key holding the wrong kind of value", "another type", true},
	{`redis: invalid reply: "<!DOCTYPE HTML>\n"`, "no Redis", false},
	{`redis: can't parse "HTTP/1.1 400 Bad Request"`, "no Redis", false},
	{`the sentinels know no master named "m"`, "SENTINEL MASTERS", false},
	{"redis: all sentinels specified in configuration are unreachable: dial tcp 127.0.0.1:1: connect: connection refused", "start the sentinels", false},
	{NamedBySentinels + ": dial tcp 127.0.0.1:1: connect: connection refused", "replica-announce-ip", false},

	// A state that passes.
	{"READONLY You can't write against a read only replica. script: 0a9f75e991483d02789696e4c90d26c10395863e, on @user_script:1.", "only if nothing else manages it", false},
	{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "address of the master", false},
	{"NOREPLICAS Not enough good replicas to write.", "start its replicas", false},
	{"TRYAGAIN Multiple keys request during rehashing of slot", "--cluster fix", false},
	{HiddenAddresses, "cluster-preferred-endpoint-type", false},
	{"CLUSTERDOWN The cluster is down", "CLUSTER INFO, and CLUSTER NODES", false},
	{"CLUSTERDOWN Hash slot not served", "CLUSTER INFO, and CLUSTER NODES", false},
	{"OOM command not allowed when used memory > 'maxmemory'.", "more memory", false},
	{"ERR Error running script (call to f_1): @user_script:1: OOM command not allowed", "more memory", false}, // 6.2
	{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", "disk", false},
	{"MISCONF Errors writing to the AOF file: No space left on device", "disk", false},
	{"LOADING Redis is loading the dataset in memory", "wait", false},
	{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "SCRIPT KILL", false},
	{"BUSY Valkey is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.", "FUNCTION KILL", false},
	{"ERR max number of clients reached", "raise maxclients", false},
	{"no upstream host", "behind it", false}, // Envoy
	{"upstream failure", "behind it", false}, // Envoy

	// Go's net and crypto/tls.
	{"dial tcp 127.0.0.1:1: connect: connection refused", "start Redis at n,", false},
	{"dial tcp: lookup nosuch on 127.0.0.53:53: no such host", "DNS", false},
	{"dial tcp: lookup nosuch on 127.0.0.53:53: server misbehaving", "DNS", false},
	{"dial tcp: lookup nosuch: Temporary failure in name resolution", "DNS", false},
	{"dial tcp: lookup nosuch on 127.0.0.1:53: dial udp 127.0.0.1:53: connect: connection refused", "DNS", false},
	{"dial tcp 192.0.2.7:6379: connect: no route to host", "firewalls", false},
	{"dial tcp 192.0.2.7:6379: connect: network is unreachable", "network of this machine", false},
	{"dial tcp 192.0.2.7:6379: connect: operation not permitted", "firewall of this machine", false},
	{"dial tcp [::1]:6379: connect: cannot assign requested address", "127.0.0.1", false},
	{"dial tcp 127.0.0.1:6379: socket: too many open files", "ulimit -n", false},
	{"dial unix /run/redis.sock: connect: no such file or directory", "path of its socket", false},
	{"dial unix /run/redis.sock: connect: permission denied", "unixsocketperm", false},
	{"tls: first record does not look like a TLS handshake", "speaks no TLS", false},
	{"tls: failed to verify certificate: x509: certificate signed by unknown authority", "?ca_file=", false},
	{"tls: failed to verify certificate: x509: certificate is valid for other.test, not localhost", "&server_name=", false},
	{"tls: failed to verify certificate: x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs", "&server_name=", false},
	{"tls: failed to verify certificate: x509: certificate is not valid for any names, but wanted to match localhost", "with its name", false},
	{"tls: failed to verify certificate: x509: certificate relies on legacy Common Name field, use SANs instead", "with its name", false},
	{"tls: failed to verify certificate: x509: certificate specifies an incompatible key usage", "serverAuth", false},
	{"tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2026-11-27T04:30:48Z is after 2026-11-26T04:29:04Z", "clock of this machine", false},
	{"tls: failed to verify certificate: x509: “redis” certificate is not trusted", "?ca_file=", false},                // macOS
	{"tls: failed to verify certificate: x509: “redis” certificate name does not match input", "&server_name=", false}, // macOS
	{"tls: failed to verify certificate: x509: “redis” certificate is expired", "clock of this machine", false},        // macOS
	{"remote error: tls: bad certificate", "that this Redis accepts", false},                                           // of a proxy
	{"remote error: tls: certificate required", "?cert_file=", false},
	{"remote error: tls: handshake failure", "?cert_file=", false}, // the same with TLS 1.2
	{"remote error: tls: unknown certificate authority", "that this Redis accepts", false},
	{"remote error: tls: unsupported certificate", "that this Redis accepts", false},
	{"remote error: tls: expired certificate", "renew the client's", false},
	{"remote error: tls: protocol version not supported", "tls-protocols", false},

	// Nothing is known to help.
	{"EOF", "", false},
	{"read tcp 127.0.0.1:50000->127.0.0.1:6379: read: connection reset by peer", "", false},
	{"NOPROTO unsupported protocol version", "", false},
	{"ERR value is not an integer or out of range", "", false},
	{"BUSYGROUP Consumer Group name already exists", "", false},
}

// What servers, proxies and the network say, what to do, and whether waiting helps: the one list. Of what nobody knows
// it says nothing.
func TestAdvice(t *testing.T) {
	for _, c := range texts {
		err := &NodeError{Node: "n", Err: fmt.Errorf("wrapped: %w", errors.New(c.text))}
		if got := err.Advice(); !strings.Contains(got, c.advice) || (c.advice == "") != (got == "") {
			t.Errorf("%q: %q, want %q", c.text, got, c.advice)
		}
		if Permanent(err) != c.permanent {
			t.Errorf("%q: permanent: %v", c.text, !c.permanent)
		}
		if got := err.Answer(); strings.Contains(got, "user_script") || strings.HasSuffix(got, "script:") {
			t.Errorf("%q is shown as %q", c.text, got)
		}
	}
	for _, r := range remedies {
		if r.sign != foreignKey && !slices.ContainsFunc(texts, func(c said) bool { return strings.Contains(c.text, r.sign) }) {
			t.Errorf("no text has the sign %q", r.sign)
		}
	}
}
