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

// Open makes a Quorum from URLs, one per independent deployment. It does no I/O except
// for reading the files that the URLs name.
//
//	redis://[user:password@]host:6379[/db]     rediss:// for TLS, unix:///path
//	redis+sentinel://host:26379?master_name=m  one of the sentinels, more as &addr=
//	redis+cluster://host:6379                  one of the nodes, more as &addr=
//
// The following parameters name files. Each new connection reads the files again, so they
// can be rotated under a running election. Options of go-redis may follow, too.
//
//	?password_file=/path   the password, in place of the one in the URL
//	&ca_file=/path         of the server's certificate, in place of the machine's roots
//	&cert_file=/path&key_file=/path  the client's certificate
//	?url_file=/path        URLs, one per line: user and password are those of the URL with
//	                       this scheme, host, path and master_name. A server whose URL has been
//	                       removed keeps its last login: the file does not change the list of nodes.
//
// go-redis itself prints failed connections to stderr, for the whole process, in
// addition to what the Elector logs. Its redis.SetLogger redirects these messages (to
// anything with Printf(ctx context.Context, format string, v ...any)), and Disable
// of its package logging silences them.
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
	if err := NewConfigError("quorum: ", problems...); err != nil {
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

// clientOf makes a client from a URL. Its errors never quote the URL, which may hold a password.
func clientOf(raw string) (redis.UniversalClient, error) {
	u, err := url.Parse(raw)
	if err != nil || strings.Contains(afterHost(raw), "@") {
		// The parser's own error may quote a part of the password.
		return nil, errors.New("not a URL: write redis://[user:password@]host:port, " +
			"with special characters percent-encoded (# is %23, / is %2F, ? is %3F, @ is %40)")
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	bad := func(err error) error { return fmt.Errorf("%s://%s: %w", u.Scheme, u.Host, err) }
	d, err := loginFrom(u)
	if err != nil {
		return nil, bad(err)
	}
	if d != (login{}) {
		raw = u.String()
	}
	plain := scheme + strings.TrimPrefix(raw, u.Scheme)
	switch {
	case strings.HasPrefix(scheme, "redis") && u.Host == "": // go-redis would take localhost
		return nil, errors.New("no host: write " + scheme + "://[user:password@]host:port")
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

// afterHost returns what follows user, password and host in a URL. An @ there means that the
// password contains a /, ? or #, and an error about the path or an option would quote the rest of it.
func afterHost(raw string) string {
	_, authority, hierarchical := strings.Cut(raw, "://")
	if !hierarchical {
		return raw
	}
	if end := strings.IndexAny(authority, "/?#"); end >= 0 {
		return authority[end:]
	}
	return ""
}

// The parameters of a URL that name files. All others are options of go-redis.
const (
	paramPassword = "password_file"
	paramCA       = "ca_file"
	paramCert     = "cert_file"
	paramKey      = "key_file"
	paramURLs     = "url_file"
)

// login is what a client needs to connect and log in: the files that it reads, and the rest of the
// URL.
type login struct {
	files access.Files
	user  string // the login name, where the password is in a file
	url   url.URL
}

// loginFrom removes the file parameters from the URL, and reads each file once to check it.
func loginFrom(u *url.URL) (login, error) {
	q := u.Query()
	d := login{files: access.Files{Password: q.Get(paramPassword), CA: q.Get(paramCA), Cert: q.Get(paramCert), Key: q.Get(paramKey), URLs: q.Get(paramURLs)}}
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
		if strings.HasSuffix(u.Scheme, "+sentinel") { // user and password before the host are the sentinels'
			d.user, twice = q.Get("username"), q.Has("password")
		} else {
			d.user = u.User.Username()
			_, twice = u.User.Password()
			u.User = nil // credentials returns it with the password
		}
		if twice {
			return d, errors.New("two passwords, one written out and one in a file: give one of them")
		}
	}
	return d, d.files.Check()
}

// credentials returns the CredentialsProviderContext for go-redis, or nil to use the URL's login.
func (d login) credentials() func(context.Context) (username, password string, err error) {
	switch {
	case d.files.Password != "":
		return func(context.Context) (string, string, error) {
			password, err := d.files.ReadPassword()
			return d.user, password, err
		}
	case d.files.URLs != "":
		return d.rereadLogin()
	}
	return nil
}

// rereadLogin returns a function that reads the login from the file of URLs, for each new connection.
func (d login) rereadLogin() func(context.Context) (username, password string, err error) {
	var mu sync.Mutex // guards last
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

// loginName returns the user that logs in, for messages: without it go-redis' Options would not name
// the user that the function of credentials returns.
func (d login) loginName(ofURL string) string {
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

func (d login) single(o *redis.Options) *redis.Client {
	o.CredentialsProviderContext, o.Username = d.credentials(), d.loginName(o.Username)
	if d.files.TLS() {
		o.Dialer = d.files.Dialer(o.TLSConfig)
	}
	return redis.NewClient(o)
}

func (d login) failover(o *redis.FailoverOptions) *redis.Client {
	o.CredentialsProviderContext, o.Username = d.credentials(), d.loginName(o.Username)
	if d.files.TLS() {
		o.Dialer = d.files.Dialer(o.TLSConfig)
	}
	return redis.NewFailoverClient(o)
}

func (d login) cluster(o *redis.ClusterOptions) *redis.ClusterClient {
	o.CredentialsProviderContext, o.Username = d.credentials(), d.loginName(o.Username)
	if d.files.TLS() {
		o.Dialer = d.files.Dialer(o.TLSConfig)
	}
	return redis.NewClusterClient(o)
}
