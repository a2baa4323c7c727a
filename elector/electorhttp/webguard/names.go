// Package webguard is what the HTTP servers of the project do about strangers:
// requests under a foreign name, requests of other sites, and wrong tokens. It
// knows net/http and the standard library only.
package webguard

import (
	"errors"
	"net"
	"net/http"
	"strings"
)

// CheckName refuses what no Host header can match, so that a mistake is reported
// at the start and not by each request that is refused for it.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("empty: give a host name")
	case net.ParseIP(strings.Trim(name, "[]")) != nil: // addresses are served anyway
		return nil
	case strings.ContainsAny(name, ":/*?#@\\, \t\r\n"):
		return errors.New("no host name: give it alone, without scheme, port, path or wildcard")
	}
	return nil
}

// Expected reports whether a client that means this server would use this
// name: localhost, an address, or one of names. Any other name is that of a site
// that points its own name at this server, to read it in the browsers of its
// visitors (DNS rebinding).
func Expected(host string, names []string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil {
		return true
	}
	for _, n := range names {
		if strings.EqualFold(strings.TrimSuffix(n, "."), host) {
			return true
		}
	}
	return false
}

// CrossSite reports whether a browser marks a request as one of another site's page. That
// page can't read the answer, but the request may do something.
func CrossSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}
