package elector

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/access"
)

// The parameters of a URL that name files; the other ones are go-redis'.
const (
	paramPassword = "password_file"
	paramCA       = "ca_file"
	paramCert     = "cert_file"
	paramKey      = "key_file"
)

// door is how a client gets in: what it reads from files, and the rest of the URL.
type door struct {
	files access.Files
	user  string
}

// openDoor takes the files out of the URL's parameters, and reads each once.
func openDoor(u *url.URL) (door, error) {
	q := u.Query()
	d := door{files: access.Files{Password: q.Get(paramPassword), CA: q.Get(paramCA), Cert: q.Get(paramCert), Key: q.Get(paramKey)}}
	for _, name := range []string{paramPassword, paramCA, paramCert, paramKey} {
		if q.Has(name) && q.Get(name) == "" {
			return d, fmt.Errorf("?%s= names no file", name)
		}
		q.Del(name)
	}
	if d.files == (access.Files{}) {
		return d, nil // the URL stays as it was written
	}
	u.RawQuery = q.Encode()
	if d.files.TLS() && u.Scheme != "rediss" && u.Scheme != "rediss+sentinel" && u.Scheme != "rediss+cluster" {
		return d, errors.New("certificates are for TLS: write rediss:// in place of redis://")
	}
	if d.files.Password != "" {
		var twice bool
		if strings.HasSuffix(u.Scheme, "+sentinel") { // before the host stand user and password of the sentinels
			d.user, twice = q.Get("username"), q.Has("password")
		} else {
			d.user = u.User.Username()
			_, twice = u.User.Password()
			u.User = nil // it goes with the password
		}
		if twice {
			return d, errors.New("two passwords, one written out and one in a file: give one of them")
		}
	}
	return d, d.files.Check()
}

// credentials is go-redis' CredentialsProviderContext; nil leaves the URL's.
func (d door) credentials() func(context.Context) (username, password string, err error) {
	if d.files.Password == "" {
		return nil
	}
	return func(context.Context) (string, string, error) {
		password, err := d.files.ReadPassword()
		return d.user, password, err
	}
}

func (d door) single(o *redis.Options) *redis.Client {
	o.CredentialsProviderContext = d.credentials()
	if d.files.TLS() {
		o.Dialer = d.files.Dialer(o.TLSConfig)
	}
	return redis.NewClient(o)
}

func (d door) failover(o *redis.FailoverOptions) *redis.Client {
	o.CredentialsProviderContext = d.credentials()
	if d.files.TLS() {
		o.Dialer = d.files.Dialer(o.TLSConfig)
	}
	return redis.NewFailoverClient(o)
}

func (d door) cluster(o *redis.ClusterOptions) *redis.ClusterClient {
	o.CredentialsProviderContext = d.credentials()
	if d.files.TLS() {
		o.Dialer = d.files.Dialer(o.TLSConfig)
	}
	return redis.NewClusterClient(o)
}
