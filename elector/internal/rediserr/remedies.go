package rediserr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// inspect returns how to find out what a foreign key holds.
func inspect(msg string) string {
	key, _, _ := strings.Cut(strings.TrimPrefix(msg, foreignKey), " ")
	return fmt.Sprintf("see what it holds with redis-cli TYPE %s, and GET %s if that is a string; ", key, key)
}

// remedies are what to do about the errors of servers, proxies and the network: the only such list. {node} is
// the node's name. The first sign that is found counts. Waiting will not fix the permanent ones, whose sign begins the error.
var remedies = []struct {
	sign, advice string
	permanent    bool
}{
	{foreignKey, "if another version of mandate wrote it, use that; if nothing uses it, remove it; or choose another prefix", true},
	{"ERR Protocol error: unauthenticated", login, true},
	{"NOAUTH", login, true},
	{"DENIED", "give it a password (requirepass, or an ACL user); or set protected-mode no where the network is trusted", true},
	{"WRONGPASS", "check user and password", true},
	{"ERR invalid password", "check the password", true},
	{"ERR AUTH", noPassword, true},
	{"ERR Client sent AUTH", noPassword, true},
	{"ERR DB index is out of range", "correct the number of the database in the URL, or leave it out: this server has fewer", true},
	{"ERR Only 0th database", "leave out the number of the database in the URL", true},
	{"ERR SELECT is not allowed in cluster mode", "leave out the number of the database, and write redis+cluster:// in the URL", true},
	{"CROSSSLOT", "don't put a hash tag into the prefix", true},
	{"WRONGTYPE", "if nothing uses the key of another type, remove it; or choose another prefix", true},
	{"ERR unknown command 'sentinel'", "it is no Sentinel: write redis:// in place of redis+sentinel://", true},
	{"ERR This instance has cluster support disabled", "it is no node of a Cluster: write redis:// in place of redis+cluster://", true},
	{"ERR unknown command", "if it is a Sentinel, " + sentinel + "; otherwise " + enable, true},
	{"ERR Unknown Redis command called", enable, true},
	{"ERR Unknown command called", enable, true},
	{"ERR Only HELLO messages are accepted by Sentinel", sentinel, true},
	{"READONLY", "it is a replica: give the address of its master (redis-cli INFO replication) if that is not listed, or of the sentinels; promote it (REPLICAOF NO ONE) only if nothing else manages it", false},
	{"MASTERDOWN", "it is a replica without its master: give the address of the master", false},
	{"NOREPLICAS", "start its replicas, or connect them again: without them it refuses writes, so that no leader continues at a master that was replaced", false},
	{"MOVED ", "it is a node of a Redis Cluster: write redis+cluster:// in the URL", false},
	{"TRYAGAIN", "wait until the Cluster has moved this slot; if nothing moves it any more: redis-cli --cluster fix HOST:PORT, of any of its nodes", false},
	{HiddenAddresses, "set on all of them: redis-cli CONFIG SET cluster-preferred-endpoint-type ip (or hostname)", false},
	{"CLUSTERDOWN", "see what the Cluster lacks: redis-cli CLUSTER INFO, and CLUSTER NODES", false},
	{"OOM ", "give this Redis more memory, or make room", false},
	{"MISCONF", "fix the disk of this Redis: it refuses writes because it cannot save", false},
	{"LOADING", "wait: it is reading its data", false},
	{" is busy running", "a script runs for too long: redis-cli SCRIPT KILL, or FUNCTION KILL if it says so", false},
	{"max number of clients", "raise maxclients, or find out who holds the connections: redis-cli CLIENT LIST", false},
	{"no upstream host", backends, false},
	{"upstream failure", backends, false},
	{"know no master named", "correct ?master_name=; redis-cli -p 26379 SENTINEL MASTERS lists the names", false},
	{NamedBySentinels, "start it; if its address can't be reached from here, have them name another: SENTINEL MONITOR, and replica-announce-ip on the servers", false},
	{"first record does not look like a TLS handshake", "this port speaks no TLS: write redis://", false},
	{"protocol version not supported", "let this Redis offer TLS 1.2 or later: tls-protocols", false},
	{"certificate signed by unknown authority", authority, false},
	{"certificate is not trusted", authority, false},
	{"certificate is valid for", "give a name of the certificate: &server_name=", false},
	{"cannot validate certificate for", "give a name of the certificate: &server_name=", false},
	{"certificate name does not match", "give a name of the certificate: &server_name=", false},
	{"certificate is not valid for any names", "renew the certificate of this Redis with its name in it", false},
	{"relies on legacy Common Name", "renew the certificate of this Redis with its name in it (subjectAltName)", false},
	{"incompatible key usage", "renew the certificate of this Redis for a server: extendedKeyUsage serverAuth", false},
	{"tls: expired certificate", "renew the client's certificate: ?cert_file=&key_file=", false},
	{"certificate has expired", "renew the certificate of this Redis, or correct the clock of this machine", false},
	{"certificate is expired", "renew the certificate of this Redis, or correct the clock of this machine", false},
	{"tls: certificate required", "name the files of the client's certificate: ?cert_file=&key_file=", false},
	{"tls: handshake failure", "name the files of the client's certificate: ?cert_file=&key_file=; or see which ciphers this Redis offers: tls-ciphers", false},
	{"tls: bad certificate", clientCert, false},
	{"tls: unknown certificate", clientCert, false},
	{"tls: unsupported certificate", clientCert, false},
	{"redis: invalid reply", "what answers is no Redis: correct host and port", false},
	{"redis: can't parse", "what answers is no Redis: correct host and port", false},
	{sentinelsUnreachable, "start the sentinels, or correct their addresses", false},
	{"lookup ", "correct the host name, or DNS on this machine", false},
	{"connection refused", "start Redis at {node}, or correct host and port", false},
	{"no route to host", "look at the network to that host, and at firewalls", false},
	{"network is unreachable", "look at the network of this machine", false},
	{"operation not permitted", "look for what forbids this process that address: a firewall of this machine, or systemd's IPAddressDeny", false},
	{"cannot assign requested address", "write 127.0.0.1 in place of localhost or ::1; if it is another host, see what uses up the ports of this machine: ss -s", false},
	{"too many open files", "raise the limit of open files of this process: ulimit -n, or LimitNOFILE=", false},
	{"connect: no such file or directory", "start Redis, or correct the path of its socket", false},
	{"connect: permission denied", "let this user open the socket: unixsocketperm, and the rights of its folder", false},
}

// Advice that several errors share.
const (
	login      = "give the password: redis://[user:password@]host; with Sentinel that of the servers as &username=&password="
	noPassword = "it has no password for this user: leave it out, or name another user"
	enable     = "enable that command (rename-command disables it), or use a server that runs scripts"
	sentinel   = "write redis+sentinel://host:26379?master_name=NAME"
	backends   = "the proxy reaches no Redis: look at what it has behind it"
	ofSlot     = " (this election needs the master of its slot), let the Cluster fail over (redis-cli CLUSTER NODES)"
	authority  = "name the file with the authority's certificate: ?ca_file=; if it is named, that of this Redis is of another authority"
	clientCert = "name the files of a client's certificate that this Redis accepts: ?cert_file=&key_file="
)

// sentinelsUnreachable is how go-redis begins what the sentinels have answered.
const sentinelsUnreachable = "all sentinels specified in configuration are unreachable"

// NamedBySentinels begins the error of a connection to a server whose address the sentinels have named.
const NamedBySentinels = "the master that the sentinels name"

// HiddenAddresses is the error of a Cluster with cluster-preferred-endpoint-type unknown-endpoint.
const HiddenAddresses = "the servers of the Cluster do not report their addresses"

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

// look looks for err among the remedies.
func look(err error) (advice string, permanent bool) {
	if Denied(err) {
		return lacksRight, true
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		msg := e.Error()
		_, answer, bySentinel := strings.Cut(msg, sentinelsUnreachable+": ")
		if !bySentinel {
			answer = msg
		}
		for _, r := range remedies {
			switch {
			case r.permanent && !strings.HasPrefix(answer, r.sign), !strings.Contains(msg, r.sign):
			case r.sign == foreignKey:
				return inspect(msg) + r.advice, true
			default:
				return r.advice, r.permanent && !bySentinel // another sentinel may come back
			}
		}
	}
	if TimedOut(err) {
		return "look for a process or a disk that hangs at {node}, a slow network, or a firewall that drops what is sent there", false
	}
	return "", false
}
