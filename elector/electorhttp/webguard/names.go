// Package webguard protects the HTTP servers of the project against requests under a
// foreign host name, requests of other sites, and wrong tokens. It depends on the
// standard library only.
package webguard

import (
	"errors"
	"net"
	"net/http"
	"strings"
)

// CheckName returns an error for a name that no Host header can match. So a mistake is
// reported at the start, and not by each request that is refused because of it.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("empty: give a host name")
	case net.ParseIP(strings.Trim(name, "[]")) != nil: // IP addresses are accepted anyway
		return nil
	case strings.ContainsAny(name, ":/*?#@\\, \t\r\n"):
		return errors.New("no host name: give it alone, without scheme, port, path or wildcard")
	}
	return nil
}

// Expected reports whether host is a name of this server: localhost, an IP address, or
// one of names. With any other name, a web site may have pointed its own name at this
// server, to read the answers in its visitors' browsers (DNS rebinding).
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

// CrossSite reports whether the browser has marked a request as coming from a page of another site.
// That page can't read the answer, but the request may change something.
func CrossSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}
