//go:build unix

package realtest_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// replace writes a file as operators should: there is never half of it.
func replace(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// Passwords are rotated in a file under a leader, and all connections are cut again and
// again: that costs no term.
func TestRealPasswordRotation(t *testing.T) {
	t.Parallel()
	const rotations = 14
	servers := servertest.RedisN(t, 3)
	password := func(i int) string { return fmt.Sprintf("secret-%d", i) }
	file := filepath.Join(t.TempDir(), "password")
	replace(t, file, password(0)+"\n")
	var urls []string
	for _, s := range servers {
		rule := []any{"ACL", "SETUSER", candidates, "on", ">" + password(0)}
		for _, right := range shipped(t, candidates) {
			rule = append(rule, right)
		}
		s.Do(t, rule...)
		urls = append(urls, "redis://"+candidates+"@"+s.Addr()+"?password_file="+url.QueryEscape(file))
	}
	el := newElectorate(t)
	a := el.join("a", open(t, urls...))
	_, term := el.next(0, lease+slack)
	b := el.join("b", open(t, urls...))
	for i := 1; i <= rotations; i++ {
		for _, s := range servers {
			s.Do(t, "ACL", "SETUSER", candidates, ">"+password(i))
		}
		replace(t, file, password(i)+"\n")
		if i%7 == 0 { // more than a lease apart
			for _, s := range servers {
				s.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
			}
		}
		el.survives(term, lease/6)
		for _, s := range servers {
			s.Do(t, "ACL", "SETUSER", candidates, "<"+password(i-1))
		}
	}
	a.shutdown()
	if err := b.leadsOrEnds(lease + slack); err != nil {
		t.Errorf("the follower ended: %v", err)
	}
	for _, c := range []*candidate{a, b} {
		if logged := c.Log.Lines("secret-"); len(logged) > 0 {
			t.Errorf("a password was logged: %q", logged)
		}
	}
}

// Client certificates are rotated under a leader, and all connections are cut: that costs no
// term, and no release. A certificate of another CA is named as the reason.
func TestRealCertificateRotation(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	serverCert, serverKey := ca.issue(t, "redis")
	s := servertest.Redis(t, "--tls-cert-file", serverCert, "--tls-key-file", serverKey, "--tls-ca-cert-file", ca.file, "--tls-auth-clients", "yes")
	op := s.Client(t, func(o *redis.Options) { o.TLSConfig = ca.client(t) })
	files := t.TempDir()
	cert, key := filepath.Join(files, "cert"), filepath.Join(files, "key")
	show := func(ca *authority, name string) {
		c, k := ca.issue(t, name)
		for from, to := range map[string]string{c: cert, k: key} {
			b, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			replace(t, to, string(b))
		}
	}
	address := "rediss://" + s.Addr() + "?" + url.Values{"ca_file": {ca.file}, "cert_file": {cert}, "key_file": {key}}.Encode()
	show(ca, "client-0")
	el := newElectorate(t)
	el.lease = 3 * lease // after a cut, a renewal may fail once for each idle connection
	a := el.join("a", open(t, address))
	_, term := el.next(0, el.lease+slack)
	b := el.join("b", open(t, address))
	follows(t, op)
	for i := range 2 {
		show(ca, fmt.Sprint("client-", i+1))
		for _, kind := range []string{"normal", "pubsub"} {
			if err := op.ClientKillByFilter(t.Context(), "TYPE", kind, "SKIPME", "yes").Err(); err != nil {
				t.Fatal(err)
			}
		}
		el.survives(term, el.lease/2)
	}
	follows(t, op)
	a.shutdown()
	if err := b.leadsOrEnds(el.lease / 2); err != nil {
		t.Error(err)
	}
	show(newAuthority(t), "stranger")
	_, err := electionOf(open(t, address), "orders").Status(t.Context())
	if err == nil || !strings.Contains(err.Error(), "unknown certificate authority") {
		t.Errorf("with another CA's certificate: %v", err)
	}
}
