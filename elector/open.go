package elector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/access"
	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/setting"
)

// Open makes a Quorum from addresses, one per independent deployment. It does no I/O except
// for reading the files that they name. There is no default: what has no host is refused.
//
//	redis://[user:password@]host:6379[/db]     rediss:// for TLS, unix:///path; also valkey://
//	redis+sentinel://host:26379?master_name=m  one of the sentinels, more as &addr=
//	redis+cluster://host:6379                  one of the nodes, more as &addr=
//	host:6379, host, [v6]:6379                 the same as redis://host:6379
//
// For TLS through a tunnel &server_name= gives the name in the server's certificate.
// The following parameters name files. Each new connection reads the files again, so they
// can be rotated under a running election. Options of go-redis may follow, too.
//
//	?password_file=/path   the password, in place of the one in the URL
//	&ca_file=/path         of the server's certificate, in place of the machine's roots
//	&cert_file=/path&key_file=/path  the client's certificate
//
// go-redis itself prints failed connections to stderr, for the whole process, in
// addition to what the Elector logs. Its redis.SetLogger redirects these messages (to
// anything with Printf(ctx context.Context, format string, v ...any)), and Disable
// of its package logging silences them.
func Open(urls ...string) (*Quorum, error) {
	var clients []redis.UniversalClient
	var problems []error
	several := slices.ContainsFunc(urls, func(u string) bool {
		scheme, _, _ := strings.Cut(u, "://")
		return scheme != u && (strings.Contains(scheme, "sentinel") || strings.Contains(scheme, "cluster"))
	})
	for i, u := range urls {
		c, err := NewClient(u)
		if several && !strings.Contains(u, "://") { // it would get a vote of its own
			if err == nil {
				_ = c.Close()
			}
			err = errors.New("it has no scheme: a further sentinel, or node of a Cluster, is added to the URL before as &addr=host:port")
		}
		if err != nil {
			problems = append(problems, setting.Errorf(fmt.Sprintf("URL %d", i+1), ": %w", err))
			continue
		}
		clients = append(clients, c)
	}
	if err := setting.Join("quorum: ", problems...); err != nil {
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

// NewClient makes a go-redis client from an address, as Open reads it, for what is no election, such as the
// marks of [github.com/mandate-dev/mandate/elector/fence]. Contexts bound its commands. It does no I/O except for
// reading the files that the address names. The caller closes it. Its errors never quote the address, which may
// hold a password.
func NewClient(address string) (redis.UniversalClient, error) {
	u, err := access.Parse(address)
	if err != nil {
		return nil, err
	}
	c, err := newClient(*u)
	if err == nil {
		return c, nil
	}
	if _, names, ok := strings.Cut(err.Error(), "unexpected option: "); ok {
		err = fmt.Errorf("option %s is not known: leave it out, or correct its name (TLS is rediss://; docs/redis.md lists ours; go-redis has dial_timeout, read_timeout, write_timeout, protocol, client_name and others)", names)
	}
	if what, _, isNumber := strings.Cut(err.Error(), ": strconv."); isNumber { // it should be one
		err = errors.New(strings.TrimPrefix(what, "redis: "))
	}
	return nil, fmt.Errorf("%s://%s: %w", u.Scheme, u.Host, err)
}

func newClient(u url.URL) (redis.UniversalClient, error) {
	files, err := access.FilesOf(&u)
	if err != nil {
		return nil, err
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	d := login{files, access.UserOf(&u)}
	if u.Scheme = scheme; files.Password != "" && kind != "sentinel" {
		u.User = nil // credentials returns it with the password
	}
	switch kind {
	case "sentinel":
		return d.failover(u.String())
	case "cluster":
		return d.cluster(u.String())
	default:
		return d.single(u.String())
	}
}

// login is what a client needs to connect and log in: the files that it reads, and the user of the URL.
type login struct {
	files access.Files
	user  string
}

// credentials returns the CredentialsProviderContext for go-redis, or nil to use the URL's login.
func (d login) credentials() func(context.Context) (username, password string, err error) {
	if d.files.Password == "" {
		return nil
	}
	return func(context.Context) (string, string, error) {
		password, err := d.files.ReadPassword()
		return d.user, password, err
	}
}

// loginName returns the user that logs in, for messages: without it go-redis' Options would not name
// the user that the function of credentials returns.
func (d login) loginName(ofURL string) string {
	user := cmp.Or(ofURL, d.user)
	if user == "" && d.files.Password != "" {
		return "default"
	}
	return user
}

func (d login) single(address string) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	o.MaintNotificationsConfig = nodes.NoMaintenance()
	o.ContextTimeoutEnabled, o.DialerRetries = true, 1 // commands are tried again as a whole, and must not lose the error
	o.CredentialsProviderContext, o.Username = d.credentials(), d.loginName(o.Username)
	o.Dialer = d.files.Dialer(o.TLSConfig)
	return redis.NewClient(o), nil
}

func (d login) failover(address string) (redis.UniversalClient, error) {
	o, err := redis.ParseFailoverURL(address)
	if err == nil && o.MasterName == "" {
		err = errors.New("?master_name= is missing: name the master that the sentinels watch")
	}
	if err != nil {
		return nil, err
	}
	o.ContextTimeoutEnabled, o.DialerRetries = true, 1 // commands are tried again as a whole, and must not lose the error
	o.CredentialsProviderContext, o.Username = d.credentials(), d.loginName(o.Username)
	o.Dialer = d.files.Dialer(o.TLSConfig)
	c := redis.NewFailoverClient(o)
	// From here on o is for the sentinels alone. go-redis tries the next one only after a hung one has timed out twice.
	o.DialTimeout, o.ReadTimeout, o.MaxRetries = nodes.StepTimeout/5, nodes.StepTimeout/5, -1
	found := c.Options() // of which the quorum makes its connections
	dial := found.Dialer
	found.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("the sentinels know no master named %q", o.MasterName)
		}
		return conn, err
	}
	return c, nil
}

func (d login) cluster(address string) (redis.UniversalClient, error) {
	o, err := redis.ParseClusterURL(address)
	if err != nil {
		return nil, err
	}
	o.MaintNotificationsConfig = nodes.NoMaintenance()
	o.ContextTimeoutEnabled, o.DialerRetries = true, 1 // commands are tried again as a whole, and must not lose the error
	o.CredentialsProviderContext, o.Username = d.credentials(), d.loginName(o.Username)
	o.Dialer = d.files.Dialer(o.TLSConfig)
	o.NewClient = func(o *redis.Options) *redis.Client { return nodes.OfCluster(redis.NewClient(o)) }
	return redis.NewClusterClient(o), nil
}
