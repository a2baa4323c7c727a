//go:build unix

package realtest_test

import (
	"crypto/tls"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// A private CA and client certificates: a client with a TLSConfig of its own.
func TestRealTLSClientCertificates(t *testing.T) {
	t.Parallel()
	ca := servertest.NewCA(t)
	var servers []*servertest.Server
	for range 3 {
		servers = append(servers, servertest.RedisTLS(t, ca, "yes"))
	}
	el := newElectorate(t)
	a := el.join("a", overTLS(t, servers, ca.Client(t, "a")))
	_, term := el.next(0, lease+slack)
	el.join("b", overTLS(t, servers, ca.Client(t, "b")))
	time.Sleep(lease / 2)
	began := time.Now()
	a.shutdown()
	_, two := el.next(term.Token(), lease+slack)
	if d := time.Since(began); d > lease/2 {
		t.Errorf("handover took %v: the release was not heard", d)
	}
	el.survives(two, lease)
}

// overTLS is a quorum of clients with a TLSConfig, as a user would make it.
func overTLS(t *testing.T, servers []*servertest.Server, cfg *tls.Config) *elector.Quorum {
	t.Helper()
	var clients []redis.UniversalClient
	for _, s := range servers {
		clients = append(clients, s.Client(t, func(o *redis.Options) { o.TLSConfig = cfg.Clone() }))
	}
	q, err := elector.NewQuorum(clients...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// What is wrong with the certificates is told in clear words, once.
func TestRealTLSRefused(t *testing.T) {
	t.Parallel()
	ca, other := servertest.NewCA(t), servertest.NewCA(t)
	for _, tc := range []struct {
		name, says string
		cfg        func(t *testing.T) *tls.Config
	}{
		{"the server's CA is not known", "certificate signed by unknown authority", func(t *testing.T) *tls.Config { return other.Client(t, "a") }},
		{"no client certificate", "certificate required", func(t *testing.T) *tls.Config {
			cfg := ca.Client(t, "a")
			cfg.Certificates = nil
			return cfg
		}},
		{"another CA's client certificate", "unknown certificate authority", func(t *testing.T) *tls.Config {
			cfg := ca.Client(t, "a")
			cfg.Certificates = other.Client(t, "a").Certificates
			return cfg
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.RedisTLS(t, ca, "yes")
			el := newElectorate(t)
			a := el.join("a", overTLS(t, []*servertest.Server{s}, tc.cfg(t)))
			time.Sleep(lease)
			// An attempt that is cut off on a busy machine hides it until the next one.
			servertest.Eventually(t, slack, "Check says "+tc.says, func() bool {
				err := a.Check()
				return err != nil && strings.Contains(err.Error(), tc.says)
			})
			if logged := a.Log.Lines("cannot campaign"); len(logged) != 1 || !a.Running() {
				t.Errorf("running: %v; logged %d times: %q", a.Running(), len(logged), logged)
			}
		})
	}
}

// rediss:// trusts the machine's roots. With SSL_CERT_FILE, which Go obeys on
// Linux, a private CA is one of them; read once, so in a process of its own.
func TestRealTLSByURL(t *testing.T) {
	t.Parallel()
	ca := servertest.NewCA(t)
	s := servertest.RedisTLS(t, ca, "no")
	for file, want := range map[string]string{ca.File: "elected\n", "/dev/null": "signed by unknown authority"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"=rediss://"+s.Addr(), "SSL_CERT_FILE="+file, "SSL_CERT_DIR=/nowhere")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("SSL_CERT_FILE=%s: %v: %s", file, err, out)
		}
	}
}
