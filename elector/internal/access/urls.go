package access

import (
	"fmt"
	"net/url"
	"strings"
)

// Login is the user and the password in a URL.
type Login struct{ User, Password string }

// ReadLogin looks up the login of a server in a file of URLs, one per line or separated by
// commas; # begins a comment line. It returns false if no URL in the file is of that server.
func (f Files) ReadLogin(like *url.URL) (Login, bool, error) {
	b, err := read("URL", f.URLs)
	if err != nil {
		return Login{}, false, err
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			continue
		}
		for raw := range strings.SplitSeq(line, ",") {
			u, err := Parse(raw)
			if err == nil && sameServer(u, like) {
				return LoginOf(u), true, nil
			}
		}
	}
	if strings.TrimSpace(string(b)) == "" { // the file is being rotated
		return Login{}, false, fmt.Errorf("the URL file %s is empty", f.URLs)
	}
	return Login{}, false, nil
}

// sameServer reports whether two URLs are of the same server; with Sentinel, also of the same
// master, because one Sentinel may watch several.
func sameServer(u, v *url.URL) bool {
	return u.Scheme == v.Scheme && u.Host == v.Host && u.Path == v.Path && u.Query().Get("master_name") == v.Query().Get("master_name")
}

// LoginOf returns the login at the server that a URL names. With Sentinel the login is in the
// query: the user and the password before the host are those of the sentinels.
func LoginOf(u *url.URL) Login {
	if strings.HasSuffix(u.Scheme, "+sentinel") {
		return Login{u.Query().Get("username"), u.Query().Get("password")}
	}
	password, _ := u.User.Password()
	return Login{u.User.Username(), password}
}
