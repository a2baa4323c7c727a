package console

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"unicode"

	"github.com/mandate-dev/mandate/elector/electorhttp/webguard"
)

const (
	maxBy      = 80      // bytes of an operator's name
	maxBody    = 4 << 10 // bytes of a request
	healthPath = "/healthz"

	tooManyTokens = "too many wrong tokens: try again in %s s"
)

// CheckBasePath returns an error if path is not valid as Config.BasePath.
func CheckBasePath(path string) error {
	_, err := basePath(path)
	return err
}

// basePath returns the path of the page without a trailing slash: "" or "/mandate".
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

// visitors checks who may send which requests.
type visitors struct {
	base    string           // prefix of all paths
	hosts   []string         // under which the page may be requested
	proxies []netip.Prefix   // whose headers are trusted
	reader  *webguard.Bearer // nil: anyone may read
}

// directKey is the context key for the address that the connection comes from.
type directKey struct{}

// admit returns the request as if it had come without a proxy. If it returns false, it has answered
// the request.
func (v *visitors) admit(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	r, below := v.relative(w, r)
	if !below {
		return nil, false
	}
	if r.URL.Path == healthPath { // load balancers and kubelets request it under any name
		return r, true
	}
	r = r.WithContext(context.WithValue(r.Context(), directKey{}, r.RemoteAddr))
	v.behindProxy(r)
	if !webguard.Expected(r.Host, v.hosts) {
		refuse(w, http.StatusMisdirectedRequest, "not served under this name: mandate console --host NAME allows one")
		return nil, false
	}
	if strings.HasPrefix(r.URL.Path, "/api/") && webguard.CrossSite(r) {
		refuse(w, http.StatusForbidden, "requested by a page of another site")
		return nil, false
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		switch code := v.mayRead(w, r); code {
		case http.StatusOK:
		case http.StatusTooManyRequests:
			refuse(w, code, tooManyTokens, w.Header().Get("Retry-After"))
			return nil, false
		default:
			refuse(w, code, "this page needs its read token, as the password")
			return nil, false
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	return r, true
}

// relative returns the request without the base path, which a proxy may have removed already. If it
// returns false, it has answered the request.
func (v *visitors) relative(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	rest, ok := strings.CutPrefix(r.URL.Path, v.base)
	if v.base == "" || !ok || rest != "" && rest[0] != '/' {
		return r, true
	}
	if rest == "" { // the links of the page are relative to a folder
		http.Redirect(w, r, v.base+"/", http.StatusPermanentRedirect)
		return nil, false
	}
	below := r.Clone(r.Context())
	below.URL.Path, below.URL.RawPath = rest, ""
	return below, true
}

// behindProxy sets the address of the client: the last one in X-Forwarded-For that is not a trusted
// proxy. The header is used only if it comes from a trusted proxy: anyone can send it.
func (v *visitors) behindProxy(r *http.Request) {
	if !v.trusted(r.RemoteAddr) {
		return
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop := strings.TrimSpace(hops[i])
		addr, err := netip.ParseAddr(strings.Trim(hop, "[]"))
		if err != nil { // some proxies also write the port
			at, err := netip.ParseAddrPort(hop)
			if err != nil {
				return
			}
			addr = at.Addr()
		}
		r.RemoteAddr = addr.Unmap().String()
		if !v.trusted(r.RemoteAddr) {
			return
		}
	}
}

func (v *visitors) trusted(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote // as in X-Forwarded-For
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, p := range v.proxies {
		if p.Contains(addr.Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// operator returns who requests an action: the login that a trusted proxy reports, or else the name
// in the request, or else the address of the client. A user who has logged in can't act under
// another name, because operators must not replace each other's pauses.
func (v *visitors) operator(r *http.Request, by string) string {
	if direct, _ := r.Context().Value(directKey{}).(string); v.trusted(direct) {
		for _, header := range []string{"X-Forwarded-User", "X-Auth-Request-User", "Remote-User"} {
			if user := printable(strings.TrimSpace(r.Header.Get(header))); user != "" {
				return user
			}
		}
	}
	if by != "" {
		return by
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return "console from " + printable(host)
}

// printable removes what is not printable from a name for the history, which terminals show.
func printable(name string) string {
	return cut(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, "")), maxBy)
}

// mayRead returns 200 if a request may read the page, otherwise 401 or 429. The token is a bearer
// token or the password of HTTP basic authentication: browsers prompt for that, and send it for the
// event stream, too.
func (v *visitors) mayRead(w http.ResponseWriter, r *http.Request) int {
	if v.reader == nil {
		return http.StatusOK
	}
	if _, sent, basic := r.BasicAuth(); basic {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+sent)
	}
	code := v.reader.Check(w, r)
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="mandate", charset="UTF-8"`)
	}
	return code
}
