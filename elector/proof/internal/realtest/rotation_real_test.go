//go:build unix

package realtest_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
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

// A password is rotated a hundred times under a leader, and all connections are
// cut again and again: that costs no term.
func TestRealPasswordRotation(t *testing.T) {
	t.Parallel()
	t.Run("password file", func(t *testing.T) {
		t.Parallel()
		rotatePasswords(t, func(_ []*servertest.Server, password string) string { return password + "\n" },
			func(s *servertest.Server, _, file string) string {
				return "redis://" + candidates + "@" + s.Addr() + "?password_file=" + url.QueryEscape(file)
			})
	})
	t.Run("file of URLs", func(t *testing.T) {
		t.Parallel()
		of := func(s *servertest.Server, password string) string {
			return "redis://" + candidates + ":" + password + "@" + s.Addr()
		}
		rotatePasswords(t, func(servers []*servertest.Server, password string) string {
			content := ""
			for _, s := range servers {
				content += of(s, password) + "\n"
			}
			return content
		}, func(s *servertest.Server, password, file string) string {
			return of(s, password) + "?url_file=" + url.QueryEscape(file)
		})
	})
}

// rotatePasswords has the passwords of all nodes in a file with that content.
func rotatePasswords(t *testing.T, content func(servers []*servertest.Server, password string) string,
	urlOf func(s *servertest.Server, password, file string) string,
) {
	servers := servertest.RedisN(t, 3)
	password := func(i int) string { return fmt.Sprintf("secret-%d", i) }
	file := filepath.Join(t.TempDir(), "password")
	replace(t, file, content(servers, password(0)))
	var urls []string
	for _, s := range servers {
		rule := []any{"ACL", "SETUSER", candidates, "on", ">" + password(0)}
		for _, right := range shipped(t, candidates) {
			rule = append(rule, right)
		}
		s.Do(t, rule...)
		urls = append(urls, urlOf(s, password(0), file))
	}
	el := newElectorate(t)
	a := el.join("a", open(t, urls...))
	_, term := el.next(0, el.lease+slack)
	b := el.join("b", open(t, urls...))
	for i := 1; i <= 100; i++ {
		for _, s := range servers {
			s.Do(t, "ACL", "SETUSER", candidates, ">"+password(i))
		}
		replace(t, file, content(servers, password(i)))
		if i%7 == 0 { // every half a second or so
			for _, s := range servers {
				s.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
			}
		}
		time.Sleep(el.lease / 50)
		for _, s := range servers {
			s.Do(t, "ACL", "SETUSER", candidates, "<"+password(i-1))
		}
		if !term.Valid() {
			t.Fatalf("the term was lost at rotation %d: %v", i, term.Err())
		}
	}
	el.survives(term, el.lease)
	a.shutdown()
	if err := b.leadsOrEnds(el.lease + slack); err != nil {
		t.Errorf("the follower ended: %v", err)
	}
	for _, c := range []*candidate{a, b} {
		if logged := c.Log.Lines("secret-"); len(logged) > 0 {
			t.Errorf("a password was logged: %q", logged)
		}
	}
}

// A wrong password in the file costs nothing while connections live, is told in
// clear words when they are cut, and is waited for.
func TestRealPasswordFileIsWrongForAWhile(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t, "--requirepass", "right")
	file := filepath.Join(t.TempDir(), "password")
	replace(t, file, "right")
	q := open(t, "redis://"+s.Addr()+"?password_file="+url.QueryEscape(file))
	op := s.Client(t, func(o *redis.Options) { o.Password = "right" })
	for _, tc := range []struct{ content, says string }{{"right", ""}, {"wrong", "check user and password"}, {"", "is empty"}, {"right\n", ""}} {
		replace(t, file, tc.content)
		if err := op.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
		_, err := electionOf(q, "orders").Status(t.Context())
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("with %q in the file: %v, want %q", tc.content, err, tc.says)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := elector.Open("redis://" + s.Addr() + "?password_file=" + url.QueryEscape(file)); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing file at the start: %v", err)
	}
}

// A client certificate and a CA are rotated on disk: the next connection takes them.
func TestRealCertificateRotation(t *testing.T) {
	t.Parallel()
	ca, other := servertest.NewCA(t), servertest.NewCA(t)
	s := servertest.RedisTLS(t, ca, "yes")
	files := t.TempDir()
	name := func(kind string) string { return filepath.Join(files, kind) }
	show := func(client, server *servertest.CA) {
		cert, key := client.Issue(t, "client")
		for from, to := range map[string]string{cert: "cert", key: "key", server.File: "ca"} {
			b, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			replace(t, name(to), string(b))
		}
	}
	show(ca, ca)
	q := open(t, "rediss://"+s.Addr()+"?"+url.Values{"ca_file": {name("ca")}, "cert_file": {name("cert")}, "key_file": {name("key")}}.Encode())
	for _, tc := range []struct {
		client, server *servertest.CA
		says           string
	}{{ca, ca, ""}, {other, ca, "unknown certificate authority"}, {ca, other, "signed by unknown authority"}, {ca, ca, ""}} {
		show(tc.client, tc.server)
		s.Restart(t)                                       // ends all connections
		_, _ = electionOf(q, "orders").Status(t.Context()) // the connection that was cut may be noticed only now
		_, err := electionOf(q, "orders").Status(t.Context())
		// A TLS 1.3 server refuses a certificate after the client has begun to send: when its
		// kernel resets the connection first, the alert that names the reason is lost. And what met the server
		// while it was down go-redis may repeat for a second: from then on it dials in the background only.
		for end := time.Now().Add(10 * time.Second); isOneOf(err, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNREFUSED) && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
			_, err = electionOf(q, "orders").Status(t.Context())
		}
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("says %v, want %q", err, tc.says)
		}
	}
}

func isOneOf(err error, errnos ...syscall.Errno) bool {
	return slices.ContainsFunc(errnos, func(no syscall.Errno) bool { return errors.Is(err, no) })
}

// Client certificates are rotated under a leader, and all connections are cut again and
// again: that costs no term. With TLS go-redis notices a cut at the next use only, so a
// renewal may fail once for each idle connection.
func TestRealCertificateRotationUnderALeader(t *testing.T) {
	t.Parallel()
	ca := servertest.NewCA(t)
	s := servertest.RedisTLS(t, ca, "yes")
	op := s.Client(t, func(o *redis.Options) { o.TLSConfig = ca.Client(t, "operator") })
	files := t.TempDir()
	cert, key := filepath.Join(files, "cert"), filepath.Join(files, "key")
	show := func(i int) {
		c, k := ca.Issue(t, fmt.Sprint("client-", i))
		for from, to := range map[string]string{c: cert, k: key} {
			b, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			replace(t, to, string(b))
		}
	}
	show(0)
	el := newElectorate(t)
	el.lease = 10 * time.Second // three attempts after a cut take a sixth of it
	el.join("a", open(t, "rediss://"+s.Addr()+"?"+url.Values{"ca_file": {ca.File}, "cert_file": {cert}, "key_file": {key}}.Encode()))
	_, term := el.next(0, el.lease+slack)
	for i := range 32 {
		show(i + 1)
		if i%8 == 0 { // every two seconds
			for _, kind := range []string{"normal", "pubsub"} {
				if err := op.ClientKillByFilter(t.Context(), "TYPE", kind, "SKIPME", "yes").Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(el.lease / 40)
		if !term.Valid() {
			t.Fatalf("the term was lost at rotation %d: %v", i+1, term.Err())
		}
	}
}
