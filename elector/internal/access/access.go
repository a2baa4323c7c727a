// Package access gets a client into a Redis with what stands in files: a password,
// certificates. Each new connection reads them again, so that who rotates them
// restarts nothing.
package access

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Files are the names of the files; each may be empty.
type Files struct {
	Password string // one line
	CA       string // certificates that sign the server's, as PEM; instead of the machine's
	Cert     string // the client's certificate, as PEM
	Key      string // its key, as PEM
	URLs     string // URLs, one of which has the login; Password goes before it
}

// maxFile is more than any of them needs: a wrong name may be that of anything.
const maxFile = 1 << 20

// dialTimeout bounds a connection and its handshake where the context does not.
const dialTimeout = 5 * time.Second

// TLS reports whether any of the files is for TLS.
func (f Files) TLS() bool { return f.CA != "" || f.Cert != "" || f.Key != "" }

// Check reads all files, and reports everything that is wrong with them.
func (f Files) Check() error {
	var problems []error
	if f.Password != "" {
		_, err := f.ReadPassword()
		problems = append(problems, err)
	}
	if f.URLs != "" {
		_, err := read("URL", f.URLs)
		problems = append(problems, err)
	}
	if f.TLS() {
		_, err := f.config(&tls.Config{MinVersion: tls.VersionTLS12})
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// ReadPassword reads the password; a line break after it does not belong to it.
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

// Dialer makes connections with what the files hold at that moment; base has what
// does not change.
func (f Files) Dialer(base *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		cfg, err := f.config(base)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		d := tls.Dialer{NetDialer: &net.Dialer{KeepAlive: 5 * time.Minute}, Config: cfg}
		return d.DialContext(ctx, network, addr)
	}
}

func (f Files) config(base *tls.Config) (*tls.Config, error) {
	cfg := base.Clone()
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

// read never quotes what it has read.
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
	if len(b) > maxFile {
		return nil, fmt.Errorf("the %s file %s is larger than 1 MiB", what, name)
	}
	return b, nil
}
