package console

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"unicode"
)

const maxBy = 80 // bytes of an operator's name

// CheckBasePath is nil for what Config.BasePath may be.
func CheckBasePath(path string) error {
	_, err := basePath(path)
	return err
}

// basePath is where the page is, without a slash at its end: "" or "/mandate".
func basePath(path string) (string, error) {
	path = strings.TrimRight(path, "/")
	if path == "" {
		return "", nil
	}
	if path[0] != '/' || strings.ContainsAny(path, "{}?#%\\ ") || strings.Contains(path, "//") || strings.Contains(path, "/.") {
		return "", fmt.Errorf("console: the base path %q is none: give one such as /mandate", path)
	}
	return path, nil
}

// relative is the request without the base path; false: it is not below it. A proxy may
// have taken it off already.
func (c *Console) relative(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	rest, ok := strings.CutPrefix(r.URL.Path, c.base)
	if c.base == "" || !ok || rest != "" && rest[0] != '/' {
		return r, true
	}
	if rest == "" { // the page's links are relative to a folder
		http.Redirect(w, r, c.base+"/", http.StatusPermanentRedirect)
		return nil, false
	}
	below := r.Clone(r.Context())
	below.URL.Path, below.URL.RawPath = rest, ""
	return below, true
}

// behindProxy sets who sent the request: the last address in X-Forwarded-For that is no
// proxy of ours. Only proxies that are trusted are believed: anybody can send the header.
func (c *Console) behindProxy(r *http.Request) {
	if !c.trusted(r.RemoteAddr) {
		return
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop := strings.TrimSpace(hops[i])
		addr, err := netip.ParseAddr(strings.Trim(hop, "[]"))
		if err != nil { // some write the port as well
			at, err := netip.ParseAddrPort(hop)
			if err != nil {
				return
			}
			addr = at.Addr()
		}
		r.RemoteAddr = addr.Unmap().String()
		if !c.trusted(r.RemoteAddr) {
			return
		}
	}
}

func (c *Console) trusted(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote // as a proxy named it
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, p := range c.cfg.Proxies {
		if p.Contains(addr.Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// operator is who gives an order: as a trusted proxy's login names it, as it says itself, or
// at least where from. Who has logged in can't act as somebody else: operators don't replace
// each other's pauses.
func (c *Console) operator(r *http.Request, direct string, said string) string {
	if c.trusted(direct) {
		for _, header := range []string{"X-Forwarded-User", "X-Auth-Request-User", "Remote-User"} {
			if user := printable(strings.TrimSpace(r.Header.Get(header))); user != "" {
				return user
			}
		}
	}
	if said != "" {
		return said
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return "console from " + printable(host)
}

// printable is a name for the history, which terminals show.
func printable(name string) string {
	return cut(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, "")), maxBy)
}

// mayRead is 200 if a request may see the page, 401 or 429 if not. The token comes as a
// bearer token or as the password of HTTP's basic authentication: a browser asks for that
// itself, and sends it for the stream of events, too.
func (c *Console) mayRead(w http.ResponseWriter, r *http.Request) int {
	if c.reader == nil {
		return http.StatusOK
	}
	if _, sent, basic := r.BasicAuth(); basic {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+sent)
	}
	code := c.reader.Check(w, r)
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="mandate", charset="UTF-8"`)
	}
	return code
}
