//go:build unix

package servertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a private certificate authority of a test.
type CA struct {
	File string // the file with its certificate, as PEM

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA creates a CA.
func NewCA(t testing.TB) *CA {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's own CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca := &CA{key: newKey(t), File: filepath.Join(t.TempDir(), "ca.crt")}
	ca.cert = sign(t, template, template, &ca.key.PublicKey, ca.key)
	writePEM(t, ca.File, "CERTIFICATE", ca.cert.Raw)
	return ca
}

// Issue issues a certificate for the loopback address, for servers and clients, and returns
// the files with the certificate and its key.
func (ca *CA) Issue(t testing.TB, name string) (certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	cert := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca.cert, &key.PublicKey, ca.key)
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	writePEM(t, certFile, "CERTIFICATE", cert.Raw)
	writePEM(t, keyFile, "EC PRIVATE KEY", raw)
	return certFile, keyFile
}

// Client returns the TLS configuration of a client that trusts only this CA, and presents a
// certificate issued by it.
func (ca *CA) Client(t testing.TB, name string) *tls.Config {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(ca.Issue(t, name))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
}

// RedisTLS starts a server that accepts only TLS, with a certificate of the CA. authClients is
// "yes" if clients must present a certificate, too, otherwise "no".
func RedisTLS(t testing.TB, ca *CA, authClients string) *Server {
	t.Helper()
	cert, key := ca.Issue(t, "redis")
	return start(t, &Server{Port: FreePort(t), tls: true, ready: serves, args: []string{
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca.File, "--tls-auth-clients", authClients,
	}})
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, pub *ecdsa.PublicKey, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func writePEM(t testing.TB, file, kind string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
}
