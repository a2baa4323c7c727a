package access

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The forms of an address, for messages.
const (
	urlForm      = "redis://[user:password@]host:port"
	sentinelForm = "redis+sentinel://host:26379?master_name=NAME, with further sentinels as &addr=host:port"
	clusterForm  = "redis+cluster://host:6379, with further nodes as &addr=host:port"
	escapes      = "in user and password # is %23, / is %2F, ? is %3F, @ is %40, % is %25, a comma %2C"
)

// mistakes are what is pasted in place of an address. They are looked for in this order.
var mistakes = []struct {
	found   *regexp.Regexp
	problem string
}{
	{regexp.MustCompile("^$"), "it is empty: write " + urlForm + ", or host:port"},
	{regexp.MustCompile("^\ufeff"), "it begins with a byte order mark: save the file without one"},
	{regexp.MustCompile("^\\[?[\"'`“”‘’]|[\"'`“”‘’]]?$"), "it is in quotes, which only a shell removes: leave them out"},
	{regexp.MustCompile(`^(export +)?-*[A-Za-z_][\w.-]* *=`), "it begins with a name and =: write only the URL, " + urlForm + ", or host:port"},
	{
		regexp.MustCompile(`[{}]|<[^<>]+>|(^|[@:/])(\$\(?[A-Za-z_]\w*\)?|%\w+%)($|[@:/?])`),
		"it holds a placeholder, such as ${NAME} or <NAME>, that was never replaced ($ in a password is %24)",
	},
	{regexp.MustCompile(`\s|^[^?]*://[^?]*://`), "it holds a blank, or several URLs: give each its own argument, or separate them by commas in MANDATE_REDIS; in a password a blank is %20"},
}

// zone matches an IPv6 address with a zone, whose % must be escaped in a URL.
var zone = regexp.MustCompile(`(://(?:[^/?#]*@)?\[[0-9A-Fa-f:.]+)%(?:25)?([^\]%]+\])`)

// Parse parses an address: a URL, host, host:port or [v6]:port. The URL that it returns has a scheme of
// ours, a host and a port. Its errors say what to write, and never quote the address, which may hold
// a password.
func Parse(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	for _, m := range mistakes {
		if m.found.MatchString(raw) {
			return nil, errors.New(m.problem)
		}
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, errors.New("it holds a character that can't be seen: type it anew")
	}
	if !strings.Contains(raw, "://") {
		return bare(raw)
	}
	u, err := url.Parse(zone.ReplaceAllString(raw, "$1%25$2"))
	if err != nil || atAfterHost.MatchString(raw) { // the parser's own error may quote a part of the password
		return nil, errors.New("it can't be read: write " + urlForm + "; " + escapes)
	}
	if strings.Contains(raw, "#") {
		return nil, errors.New("it holds a #, which is %23 in a password")
	}
	scheme := u.Scheme
	if u.Scheme = strings.Replace(scheme, "valkey", "redis", 1); !slices.Contains(schemes, u.Scheme) {
		return nil, fmt.Errorf("scheme %.20q is not known: use redis, rediss (TLS), unix (unix:///path), redis+sentinel or redis+cluster (docs/redis.md)", scheme)
	}
	if u.Scheme == "unix" {
		return u, checkSocket(u)
	}
	return u, cmp.Or(checkHost(u), checkPath(u), checkUser(u), checkOptions(u))
}

// bare returns the URL of an address that has no scheme.
func bare(raw string) (*url.URL, error) {
	switch {
	case strings.Contains(raw, "@"):
		return nil, errors.New("a user or password needs a URL: write " + urlForm + "; " + escapes)
	case strings.HasPrefix(raw, "/"), strings.HasPrefix(raw, "."), strings.HasPrefix(raw, "unix:"):
		return nil, errors.New("for a socket write unix:///path")
	case strings.ContainsAny(raw, "/?#"):
		return nil, errors.New("it has no ://: write " + urlForm + "/database, or host:port")
	}
	u := &url.URL{Scheme: "redis", Host: raw}
	return u, checkHost(u)
}

// atAfterHost matches a URL with an @ behind user, password and host: the password contains a /, ? or #, and
// an error about the path or an option would quote the rest of it.
var atAfterHost = regexp.MustCompile(`://[^/?#]*[/?#].*@`)

// schemes are those of URLs; valkey stands for redis in each.
var schemes = []string{"redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}

func checkSocket(u *url.URL) error {
	switch {
	case u.Host != "":
		return errors.New("the path of a socket begins with a third slash: unix:///path")
	case strings.Trim(u.Path, "/") == "":
		return errors.New("the path of the socket is missing: write unix:///path")
	}
	return cmp.Or(checkUser(u), checkOptions(u))
}

// checkHost checks the host and the port, and adds the default port. Of what is missing else, go-redis
// would make localhost: an election of this machine alone.
func checkHost(u *url.URL) (err error) {
	u.Host, err = hostPort(u.Host, defaultPort(u))
	return err
}

func defaultPort(u *url.URL) string {
	if strings.HasSuffix(u.Scheme, "+sentinel") {
		return "26379"
	}
	return "6379"
}

// hostName matches the names of hosts, which in containers may also hold underscores.
var hostName = regexp.MustCompile(`^[\pL\pN_][\pL\pN._-]*$`)

// hostPort checks host, host:port or [v6]:port, and adds the port if there is none.
func hostPort(hostport, port string) (string, error) {
	u := url.URL{Host: hostport}
	host := u.Hostname()
	ip, notIP := netip.ParseAddr(host)
	switch {
	case host == "":
		return "", errors.New("no host: write " + urlForm + " (is a variable empty?)")
	case strings.Contains(hostport, ","):
		return "", errors.New("several hosts in one URL: write a URL for each independent Redis; for one Redis " + sentinelForm + ", or " + clusterForm)
	case strings.HasPrefix(hostport, "[") != (notIP == nil && ip.Is6()), notIP != nil && !hostName.MatchString(host):
		return "", errors.New("the host is neither a name nor an address: write host:port, or " + urlForm + "; an IPv6 address stands in brackets: [::1]:6379")
	case notIP != nil && strings.Trim(host, "0123456789") == "":
		return "", errors.New("the host is a number: write host:port")
	case notIP == nil && ip.WithZone("").IsUnspecified():
		return "", errors.New("the host is the address of every interface, to listen on: write the address of the Redis")
	case strings.HasSuffix(hostport, ":"):
		return "", errors.New("no port after the colon: write host:port (is a variable empty?)")
	case u.Port() != "":
		port = u.Port()
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", errors.New("the port must be a number from 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}

func checkPath(u *url.URL) error {
	path := strings.Trim(u.Path, "/")
	number, err := strconv.ParseUint(path, 10, 31)
	switch {
	case path == "":
		return nil
	case strings.HasSuffix(u.Scheme, "+cluster"):
		return errors.New("a Cluster has no database numbers: leave out what follows the host")
	case err != nil && strings.HasSuffix(u.Scheme, "+sentinel"):
		return errors.New("the path is no database number: write " + sentinelForm)
	case err != nil || strconv.FormatUint(number, 10) != path:
		return errors.New("the path is no database number: write " + urlForm + "/database")
	}
	return nil
}

// checkUser refuses a user without a password: go-redis would not log in at all.
func checkUser(u *url.URL) error {
	q := u.Query()
	inFile := q.Has(paramPassword)
	password, _ := u.User.Password()
	sentinel := strings.HasSuffix(u.Scheme, "+sentinel")
	switch {
	case u.User.Username() != "" && password == "" && (sentinel || !inFile):
		return errors.New("there is a user and no password: write redis://:password@host:port if it is the password, or redis://user:password@host:port; " +
			"or name a file: ?" + paramPassword + "=")
	case sentinel && q.Get("username") != "" && q.Get("password") == "" && !inFile:
		return errors.New("there is a &username= and no password: write &password=, or name a file: &" + paramPassword + "=")
	}
	return nil
}

// checkOptions checks the form of the options, and the further addresses. go-redis refuses what it does not know.
func checkOptions(u *url.URL) error {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New("the options can't be read: write ?name=value&name=value, with special characters percent-encoded")
	}
	for i, addr := range q["addr"] {
		if q["addr"][i], err = hostPort(addr, defaultPort(u)); err != nil {
			return fmt.Errorf("&addr=: %w", err)
		}
	}
	if q.Has("addr") {
		u.RawQuery = q.Encode()
	}
	return nil
}
