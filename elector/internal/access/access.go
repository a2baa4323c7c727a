// Package access connects clients to a Redis, and reads what they need to log in from files: a
// password, certificates. Each new connection reads the files again, so that they can be
// rotated without a restart.
package access

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Files are the names of the files; each may be empty.
type Files struct {
	Password   string // one line
	CA         string // certificates of the authorities that may sign the server's, as PEM; they replace the machine's
	Cert       string // the client's certificate, as PEM
	Key        string // its key, as PEM
	ServerName string // no file: the name in the server's certificate, in place of the host
}

// The parameters of a URL that are ours. All others are options of go-redis.
const paramPassword = "password_file"

var params = []string{paramPassword, "ca_file", "cert_file", "key_file", "server_name"}

// FilesOf removes our parameters from a URL, and reads each file once to check it.
func FilesOf(u *url.URL) (f Files, err error) {
	q := u.Query()
	for i, to := range []*string{&f.Password, &f.CA, &f.Cert, &f.Key, &f.ServerName} {
		if *to = q.Get(params[i]); q.Has(params[i]) && *to == "" {
			return f, fmt.Errorf("?%s= is empty", params[i])
		}
		q.Del(params[i])
	}
	if f == (Files{}) {
		return f, nil // the URL stays as it was written
	}
	u.RawQuery = q.Encode()
	_, own := u.User.Password()
	if strings.HasSuffix(u.Scheme, "+sentinel") { // user and password before the host are the sentinels'
		own = q.Has("password")
	}
	switch {
	case f.TLS() && !strings.HasPrefix(u.Scheme, "rediss"):
		return f, errors.New("certificates are for TLS: write rediss:// in place of redis://")
	case f.Password != "" && own:
		return f, errors.New("two passwords, one written out and one in a file: give one of them")
	}
	return f, f.Check()
}

// maxFile is the size limit of a file, in bytes: more than any of them needs, but a wrong name may
// be that of any file.
const maxFile = 1 << 20

// dialTimeout bounds dialling and the TLS handshake, in case the context does not.
const dialTimeout = 5 * time.Second

// apart is how long one address of a name is tried before the next one too. net.Dialer waits two seconds or more for a
// machine whose packets vanish: by then a claim or renewal has ended.
const apart = 100 * time.Millisecond

// TLS reports whether any of the files, or the server's name, is for TLS.
func (f Files) TLS() bool { return f.CA != "" || f.Cert != "" || f.Key != "" || f.ServerName != "" }

// Check reads all files, and returns everything that is wrong with them.
func (f Files) Check() error {
	var password, certs error
	if f.Password != "" {
		_, password = f.ReadPassword()
	}
	if f.TLS() {
		_, certs = f.config(&tls.Config{MinVersion: tls.VersionTLS12})
	}
	return errors.Join(password, certs)
}

// ReadPassword reads the password, without a line break at its end.
func (f Files) ReadPassword() (string, error) {
	b, err := read("password", f.Password)
	if err != nil {
		return "", err
	}
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
	switch {
	case len(b) == 0:
		return "", fmt.Errorf("the password file %s is empty", f.Password)
	case bytes.ContainsAny(b, "\r\n\x00"):
		return "", fmt.Errorf("the password file %s holds more than one line", f.Password)
	}
	return string(b), nil
}

// Dialer returns a function that connects to the address of a name that answers first; unless base is nil, with TLS and
// the current content of the files. base has the settings that do not change.
func (f Files) Dialer(base *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, port, _ := net.SplitHostPort(addr)
		plain := &net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{ // of go-redis
			Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3,
		}}
		dial := plain.DialContext
		if base != nil {
			cfg, err := f.config(base)
			if err != nil {
				return nil, err
			}
			cfg.ServerName = cmp.Or(cfg.ServerName, host)
			dial = (&tls.Dialer{NetDialer: plain, Config: cfg}).DialContext
		}
		ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
		if network != "tcp" || err != nil { // of a socket, or with the error of the look-up
			return dial(ctx, network, addr)
		}
		return first(ctx, ips, func(ctx context.Context, ip net.IPAddr) (net.Conn, error) {
			return dial(ctx, network, net.JoinHostPort(ip.String(), port))
		})
	}
}

// first dials the addresses in turn, the next one when one has failed or is late, and returns the first connection, or
// the first error.
func first[A any](ctx context.Context, addrs []A, dial func(context.Context, A) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var made atomic.Pointer[net.Conn]
	ended := make(chan error, len(addrs))
	var errs []error
	for tried := 0; len(errs) < len(addrs); tried++ {
		if tried < len(addrs) {
			go func() {
				c, err := dial(ctx, addrs[tried])
				if err == nil && !made.CompareAndSwap(nil, &c) {
					_ = c.Close()
				}
				ended <- err
			}()
		}
		select {
		case err := <-ended:
			if err == nil {
				return *made.Load(), nil
			}
			errs = append(errs, err)
		case <-time.After(apart):
		}
	}
	return nil, errs[0]
}

func (f Files) config(base *tls.Config) (*tls.Config, error) {
	cfg := base.Clone()
	cfg.ServerName = cmp.Or(f.ServerName, cfg.ServerName)
	var problems []error
	if f.CA != "" {
		pem, err := read("CA", f.CA)
		cfg.RootCAs = x509.NewCertPool()
		if err == nil && !cfg.RootCAs.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("the CA file %s holds no certificate (PEM)", f.CA)
		}
		problems = append(problems, err)
	}
	switch {
	case (f.Cert == "") != (f.Key == ""):
		problems = append(problems, errors.New("a certificate and its key go together: name both files"))
	case f.Cert != "":
		cert, certErr := read("certificate", f.Cert)
		key, keyErr := read("key", f.Key)
		problems = append(problems, certErr, keyErr)
		if certErr != nil || keyErr != nil {
			break
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			problems = append(problems, fmt.Errorf("the certificate %s with the key %s: %w", f.Cert, f.Key, err))
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, errors.Join(problems...)
}

// read reads a file. Its errors never quote the content, which may be secret.
func read(what, name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("the %s file can't be read: %w", what, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("the %s file can't be read: %w", what, err)
	}
	switch {
	case len(b) > maxFile:
		return nil, fmt.Errorf("the %s file %s is larger than 1 MiB", what, name)
	case bytes.HasPrefix(b, []byte("\ufeff")):
		return nil, fmt.Errorf("the %s file %s begins with a byte order mark: save it without one", what, name)
	}
	return b, nil
}

// UserOf returns the user at the server that a URL names. With Sentinel it is in the query: user and password before
// the host are those of the sentinels.
func UserOf(u *url.URL) string {
	if strings.HasSuffix(u.Scheme, "+sentinel") {
		return u.Query().Get("username")
	}
	return u.User.Username()
}
