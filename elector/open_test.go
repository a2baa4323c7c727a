package elector_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/mandate-dev/mandate/elector"
)

// A password that is rotated under a leader which won with its very first claim costs the
// term, and not the process: the election had worked, so Run waits for the new password.
func TestPasswordRotatedUnderARunningElection(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.Start("a"), c.Start("b")
		_, term := first(t, 3*shortLease, a, b)
		time.Sleep(shortLease)
		for _, nd := range c.Nodes {
			nd.Server().RequireAuth("new")
			nd.Reset("") // CLIENT KILL
		}
		wantReason(t, term, shortLease, elector.ReasonExpired)
		time.Sleep(20 * shortLease)
		for _, x := range []*candidate{a, b} {
			select {
			case <-x.Done:
				t.Fatalf("%s: Run ended: %v", x.ID(), x.Result)
			default:
			}
			if err := x.Check(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
				t.Errorf("%s: Check: %v", x.ID(), err)
			}
			if n := len(x.Log.Lines("cannot campaign")); n != 1 {
				t.Errorf("%s: logged %d times", x.ID(), n)
			}
			if n := len(x.Log.Lines("")); n > 18+2*(1+3) { // two reminders of each
				t.Errorf("%s: the log floods: %d lines", x.ID(), n)
			}
		}
		for _, nd := range c.Nodes {
			nd.Server().RequireAuth("")
			nd.Reset("")
		}
		_, next := first(t, shortLease, a, b)
		newer(t, next, term)
	})
}

// tokens are passwords that live for a second, as those of AWS IAM and Azure Entra do for minutes.
type tokens struct {
	file string

	mu        sync.Mutex // guards the following
	now       string
	listeners map[auth.CredentialsListener]bool
}

func (k *tokens) login(context.Context) (user, password string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return "mandate", k.now, nil
}

// Subscribe makes it a StreamingCredentialsProvider.
func (k *tokens) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listeners[l] = true
	return auth.NewBasicCredentials("mandate", k.now), func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.listeners, l)
		return nil
	}, nil
}

// issue makes another token the only valid one: the nodes close the connections that logged in with the last one.
func (k *tokens) issue(t *testing.T, token string, nodes []*node) {
	for _, nd := range nodes {
		nd.Server().RequireUserAuth("mandate", token)
	}
	must(t, os.WriteFile(k.file, []byte(token+"\n"), 0o600))
	k.mu.Lock()
	k.now = token
	listeners := slices.Collect(maps.Keys(k.listeners))
	k.mu.Unlock()
	for _, l := range listeners {
		l.OnNext(auth.NewBasicCredentials("mandate", token))
	}
	for _, nd := range nodes {
		nd.Reset("")
	}
}

// A login whose password is another one each second, in each way to give it: the term lasts for many leases, and
// messages arrive at the leader and the follower.
func TestTokensThatLiveForASecond(t *testing.T) {
	for way, set := range map[string]func(*testing.T, *tokens, *redis.Options){
		"file": func(t *testing.T, k *tokens, o *redis.Options) {
			client, err := elector.NewClient("redis://mandate@" + o.Addr + "?password_file=" + url.QueryEscape(k.file))
			must(t, err)
			defer client.Close()
			o.CredentialsProviderContext = client.(*redis.Client).Options().CredentialsProviderContext
		},
		"function": func(_ *testing.T, k *tokens, o *redis.Options) { o.CredentialsProviderContext = k.login },
		"stream":   func(_ *testing.T, k *tokens, o *redis.Options) { o.StreamingCredentialsProvider = k },
	} {
		sub(t, way, 3, func(t *testing.T, c *cluster) {
			k := &tokens{file: filepath.Join(t.TempDir(), "password"), listeners: map[auth.CredentialsListener]bool{}}
			k.issue(t, "token", c.Nodes)
			start := func(id string) *candidate {
				var clients []redis.UniversalClient
				for i := range c.Nodes {
					clients = append(clients, c.Client(id, i, func(o *redis.Options) { set(t, k, o) }))
					defer clients[i].Close()
				}
				q := quorumOf(t, clients...)
				return makeCandidate(t, q, id).Begin(nil)
			}
			a := start("a")
			term := a.Elected(3 * shortLease)
			b := start("b")
			for i := range 100 {
				time.Sleep(time.Second)
				k.issue(t, fmt.Sprint("token-", i), c.Nodes)
			}
			continues(t, term)
			time.Sleep(2 * shortLease) // a pipe's end is noticed at its next use
			began := time.Now()
			_, to, err := electionOf(b.Q, "orders").Transfer(within(t, time.Minute), "b")
			if next := b.Elected(time.Second); err != nil || next.Since().Sub(began) > 50*time.Millisecond {
				t.Errorf("after %v: %+v, %v", next.Since().Sub(began), to, err)
			}
			for _, x := range []*candidate{a, b} {
				if logged := x.Log.Lines("token-"); len(logged) > 0 {
					t.Errorf("a password was logged: %q", logged)
				}
			}
		})
	}
}

// selfSigned returns a certificate for the loopback address, and its key, in PEM.
func selfSigned(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err1 := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	encoded, err2 := x509.MarshalPKCS8PrivateKey(private)
	must(t, errors.Join(err1, err2))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// Each new connection shows the certificate that its file holds then, and trusts the CA that its file holds then.
func TestRotatedCertificates(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t, "redis")
	pair, err := tls.X509KeyPair(cert, key)
	must(t, err)
	var shown atomic.Value
	m, err := miniredis.RunTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12,
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			c, err := x509.ParseCertificate(raw[0])
			shown.Store(c.Subject.CommonName)
			return err
		},
	})
	must(t, err)
	defer m.Close()
	dir := t.TempDir()
	write := func(name string, content []byte) {
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	show := func(name string) {
		cert, key := selfSigned(t, name)
		write("cert", cert)
		write("key", key)
	}
	write("ca", cert)
	show("one")
	c, err := elector.NewClient("rediss://" + m.Addr() + "?ca_file=" + dir + "/ca&cert_file=" + dir + "/cert&key_file=" + dir + "/key")
	must(t, err)
	defer c.Close()
	for _, name := range []string{"one", "two"} {
		show(name)
		conn := c.(*redis.Client).Conn() // which no other one gets meanwhile
		defer conn.Close()
		if err := conn.Ping(t.Context()).Err(); err != nil || shown.Load() != name {
			t.Errorf("%v; the server has been shown the certificate of %v, want %s", err, shown.Load(), name)
		}
	}
	other, _ := selfSigned(t, "another")
	write("ca", other)
	if err := c.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("with another CA: %v", err)
	}
}

// A client from an address does not ask for news of the server's maintenance, for which it would keep two goroutines and a buffer.
func TestClientsOfAddressesAskForNoMaintenance(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	var asked atomic.Bool
	m.Server().SetPreHook(func(_ *server.Peer, cmd string, args ...string) bool {
		if cmd == "CLIENT" && strings.EqualFold(args[0], "maint_notifications") {
			asked.Store(true)
		}
		return false
	})
	for _, address := range []string{"redis://" + m.Addr(), "redis+cluster://" + m.Addr()} {
		c, err := elector.NewClient(address)
		must(t, err)
		defer c.Close()
		if err := c.Ping(t.Context()).Err(); err != nil || asked.Load() {
			t.Errorf("%s: %v, asked: %v", address, err, asked.Load())
		}
	}
}

// Run on a goroutine that nobody waits for: the log has the error that ends it, with what to do, and once. The end of
// its context is none.
func TestRunThatEndsSaysWhy(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a, _ := leading(c, "a")
		a.Shutdown()
		failing := makeCandidate(t, c.Quorum("f"), "f").Begin(func(context.Context, *elector.Term) error { return errors.New("disk full") })
		_ = failing.Ended(3 * shortLease)
		c.Nodes[0].Server().RequireAuth("new")
		denied := c.Start("d")
		_ = denied.Ended(shortLease)
		for x, want := range map[*candidate]string{a: "", failing: `error="disk full"`, denied: "give the password"} {
			lines := x.Log.Lines("level=ERROR")
			if want == "" && len(lines) == 0 {
				continue
			}
			if len(lines) != 1 || !strings.Contains(lines[0], `msg="run ended"`) || !strings.Contains(lines[0], want) {
				t.Errorf("%s logged %q, want %q", x.ID(), lines, want)
			}
		}
	})
}

// What is wrong with which URL is said, and no password. Regression: one with a # or / in it was parsed as the port, and
// printed with the error.
func TestErrorsOfURLsShowNoPassword(t *testing.T) {
	for url, want := range map[string]string{
		"":                             "redis://", // access.Parse has more
		"redis://u:hunter2@h:6379/abc": "database",
		"redis://u:hunter2@h:6379/?max_retries=many":       "h:6379: invalid max_retries number$",
		"unix://u:hunter2@/run/redis.sock?db=a":            ": invalid database number$",
		"redis://u:hunter2@h:6379/?nonsense=1":             "nonsense",
		"redis://u:hunter2@h:port":                         "port",
		"redis://u:hunter2\n@h":                            "a blank",
		"redis+sentinel://u:hunter2@h:26379":               "master_name",
		"redis+cluster://u:hunter2@h:7000/?dial_timeout=x": "dial_timeout",
		"redis://user:hunter2#x@h:6379":                    "",
		"redis://:hunter2/x@h:6379":                        "",
		"redis://user:hunter2?x@h:6379":                    "",
		"rediss://:hunter2%zz@h:6379":                      "",
		"redis://u:p@x?hunter2@h:6379":                     "",
		"redis://:p@1/hunter2@h":                           "",
		"redis://@?:hunter2@":                              "",
		"redis+cluster://u:p@x?db=hunter2@h":               "",
		"unix://u:p@/tmp#hunter2@":                         "",
		"redis+sentinel://user:hunter2/x@h:6379":           "",
		"redis://user:%hunter2@h":                          "",
	} {
		_, err := elector.Open(url)
		if err == nil || !strings.Contains(err.Error(), "URL 1") || !strings.Contains(err.Error()+"$", want) {
			t.Errorf("%q: error %v does not say %q and which URL", url, err, want)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), "hunter") || strings.Contains(e.Error(), "%hu") || strings.Contains(e.Error(), "%zz") {
				t.Errorf("error %q shows (a part of) the password", e)
			}
		}
	}
	for want, urls := range map[string][]string{
		"URL 2":                  {"redis://a:1", "", "http://b"},
		"URL 3":                  {"redis://a:1", "", "http://b"}, // all problems at once
		"h:6379 is listed twice": {"redis://h", "redis://i", "h:6379"},
		"h:1 is listed twice":    {"redis://h:1", "redis://h:2", "redis://h:1/3"},
	} {
		if _, err := elector.Open(urls...); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %v, want %q", urls, err, want)
		}
	}
	if _, err := elector.Open("redis+sentinel://h?master_name=m", "i:26379", "j:26379/0?master_name=m"); strings.Count(fmt.Sprint(err), "as &addr=host:port") != 2 {
		t.Errorf("sentinels that would be votes: %v", err)
	}
}

func TestWrongPasswordEverywhere(t *testing.T) {
	for name, tc := range map[string]struct{ password, want string }{
		"none":  {"", "give the password"},
		"wrong": {"hunter2", "check user and password"},
	} {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			var clients []redis.UniversalClient
			for i, nd := range c.Nodes {
				nd.Server().RequireAuth("secret")
				cl := c.Client("a", i)
				o := cl.Options()
				o.Password = tc.password
				defer cl.Close()
				clients = append(clients, cl)
			}
			q := quorumOf(t, clients...)
			err := makeCandidate(t, q, "a").Begin(nil).Ended(time.Minute)
			if !errors.Is(err, elector.ErrPermanent) {
				t.Fatalf("Run returned %v", err)
			}
			if !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "127.0.0.1:7001") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %q does not say what to fix, and where", err)
			}
		})
	}
}

// A Cluster that hides its addresses (cluster-preferred-endpoint-type unknown-endpoint) cannot be used, which is not the
// answer that it knows no such key.
func TestClusterThatHidesItsAddresses(t *testing.T) {
	m := miniredis.RunT(t)
	m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd != "CLUSTER" {
			return false
		}
		c.WriteRaw("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$-1\r\n:" + m.Port() + "\r\n$2\r\nid\r\n")
		return true
	})
	url := "redis+cluster://" + m.Addr()
	c, err := elector.NewClient(url)
	must(t, err)
	defer c.Close()
	q := open(t, url)
	own, err := elector.NewQuorum(redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{m.Addr()}}))
	must(t, err)
	defer own.Close()
	status := func(q *elector.Quorum) error { _, err := electionOf(q, "e").Status(t.Context()); return err }
	for what, err := range map[string]error{"a client": c.Get(t.Context(), "k").Err(), "a status": status(q), "a status by a client": status(own)} {
		if err == nil || !strings.Contains(err.Error(), "do not report their addresses") || errors.Is(err, redis.Nil) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
