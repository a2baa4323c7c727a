package elector

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/access"
	"github.com/mandate-dev/mandate/elector/internal/setting"
)

// Open makes a Quorum from URLs, one per independent deployment. It does no I/O, but
// to read the files that are named.
//
//	redis://[user:password@]host:6379[/db]     rediss:// for TLS, unix:///path
//	redis+sentinel://host:26379?master_name=m  one of the sentinels, more as &addr=
//	redis+cluster://host:6379                  one of the nodes, more as &addr=
//
// These parameters name files, which each new connection reads again, so that they can
// be rotated under a running election; options of go-redis may follow too.
//
//	?password_file=/path   the password, in place of the one in the URL
//	&ca_file=/path         of the server's certificate, in place of the machine's roots
//	&cert_file=/path&key_file=/path  the client's certificate
//	?url_file=/path        URLs, one per line: user and password are those of the URL with
//	                       this scheme, host, path and master_name. Who has no URL there any more keeps
//	                       what was read last: it is not the list of nodes that is read again.
//
// go-redis itself prints connections that fail to stderr, for the whole process,
// beside what the Elector logs. Its redis.SetLogger sends that elsewhere (to
// anything with Printf(ctx context.Context, format string, v ...any)), and Disable
// of its package logging silences it.
func Open(urls ...string) (*Quorum, error) {
	var clients []redis.UniversalClient
	var problems []error
	for i, u := range urls {
		c, err := clientOf(u)
		if err != nil {
			problems = append(problems, setting.Errorf(fmt.Sprintf("URL %d", i+1), ": %w", err))
			continue
		}
		clients = append(clients, c)
	}
	if err := configError("quorum: ", problems...); err != nil {
		closeAll(clients)
		return nil, err
	}
	q, err := NewQuorum(clients...)
	if err != nil {
		closeAll(clients)
		return nil, err
	}
	q.owned = clients
	return q, nil
}

// clientOf never repeats the URL in an error: it may hold a password.
func clientOf(raw string) (redis.UniversalClient, error) {
	u, err := url.Parse(raw)
	if err != nil || strings.Contains(behindHost(raw), "@") {
		// The parser's own text may quote a part of the password.
		return nil, errors.New("not a URL: write redis://[user:password@]host:port, " +
			"with special characters percent-encoded (# is %23, / is %2F, ? is %3F, @ is %40)")
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	bad := func(err error) error { return fmt.Errorf("%s://%s: %w", u.Scheme, u.Host, err) }
	d, err := openDoor(u)
	if err != nil {
		return nil, bad(err)
	}
	if d != (door{}) {
		raw = u.String()
	}
	plain := scheme + strings.TrimPrefix(raw, u.Scheme)
	switch {
	case kind == "sentinel" && (scheme == "redis" || scheme == "rediss"):
		o, err := redis.ParseFailoverURL(plain)
		if err != nil {
			return nil, bad(err)
		}
		if o.MasterName == "" {
			return nil, bad(errors.New("?master_name= is missing"))
		}
		return d.failover(o), nil
	case kind == "cluster" && (scheme == "redis" || scheme == "rediss"):
		o, err := redis.ParseClusterURL(plain)
		if err != nil {
			return nil, bad(err)
		}
		return d.cluster(o), nil
	case slices.Contains([]string{"redis", "rediss", "unix"}, u.Scheme):
		o, err := redis.ParseURL(raw)
		if err != nil {
			return nil, bad(err)
		}
		return d.single(o), nil
	case u.Scheme == "" || u.Host == "":
		return nil, errors.New("not a Redis URL: write redis://[user:password@]host:port")
	default:
		return nil, fmt.Errorf("scheme %q is not known: use redis, rediss, unix, redis+sentinel or redis+cluster", u.Scheme)
	}
}

// behindHost is what follows user, password and host. An @ there ends a password with a / or ? or # in it,
// of which an error of a path or an option would quote the rest.
func behindHost(raw string) string {
	_, authority, hierarchical := strings.Cut(raw, "://")
	if !hierarchical {
		return raw
	}
	if end := strings.IndexAny(authority, "/?#"); end >= 0 {
		return authority[end:]
	}
	return ""
}

// The parameters of a URL that name files; the other ones are go-redis'.
const (
	paramPassword = "password_file"
	paramCA       = "ca_file"
	paramCert     = "cert_file"
	paramKey      = "key_file"
	paramURLs     = "url_file"
)

// door is how a client gets in: what it reads from files, and the rest of the URL.
type door struct {
	files access.Files
	user  string // with a password file
	url   url.URL
}

// openDoor takes the files out of the URL's parameters, and reads each once.
func openDoor(u *url.URL) (door, error) {
	q := u.Query()
	d := door{files: access.Files{Password: q.Get(paramPassword), CA: q.Get(paramCA), Cert: q.Get(paramCert), Key: q.Get(paramKey), URLs: q.Get(paramURLs)}}
	for _, name := range []string{paramPassword, paramCA, paramCert, paramKey, paramURLs} {
		if q.Has(name) && q.Get(name) == "" {
			return d, fmt.Errorf("?%s= names no file", name)
		}
		q.Del(name)
	}
	if d.files == (access.Files{}) {
		return d, nil // the URL stays as it was written
	}
	u.RawQuery = q.Encode()
	d.url = *u
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
	switch {
	case d.files.Password != "":
		return func(context.Context) (string, string, error) {
			password, err := d.files.ReadPassword()
			return d.user, password, err
		}
	case d.files.URLs != "":
		return d.loginAgain()
	}
	return nil
}

// loginAgain reads the file of URLs at each new connection.
func (d door) loginAgain() func(context.Context) (username, password string, err error) {
	var mu sync.Mutex // of last
	last := access.LoginOf(&d.url)
	return func(context.Context) (string, string, error) {
		now, there, err := d.files.ReadLogin(&d.url)
		mu.Lock()
		defer mu.Unlock()
		if there {
			last = now
		}
		return last.User, last.Password, err
	}
}

// loginName is who logs in, for messages: the Options do not name whom credentials return.
func (d door) loginName(ofURL string) string {
	switch {
	case ofURL != "":
		return ofURL
	case d.files.Password != "" && d.user == "":
		return "default"
	case d.files.URLs != "":
		return access.LoginOf(&d.url).User
	}
	return d.user
}

func (d door) single(o *redis.Options) *redis.Client {
	o.CredentialsProviderContext, o.Username = d.credentials(), d.loginName(o.Username)
	if d.files.TLS() {
		o.Dialer = d.files.Dialer(o.TLSConfig)
	}
	return redis.NewClient(o)
}

func (d door) failover(o *redis.FailoverOptions) *redis.Client {
	o.CredentialsProviderContext, o.Username = d.credentials(), d.loginName(o.Username)
	if d.files.TLS() {
		o.Dialer = d.files.Dialer(o.TLSConfig)
	}
	return redis.NewFailoverClient(o)
}

func (d door) cluster(o *redis.ClusterOptions) *redis.ClusterClient {
	o.CredentialsProviderContext, o.Username = d.credentials(), d.loginName(o.Username)
	if d.files.TLS() {
		o.Dialer = d.files.Dialer(o.TLSConfig)
	}
	return redis.NewClusterClient(o)
}
