package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// badTarget is the error of HTTP or TCP for a target that it can't probe.
func badTarget(probe, format string, args ...any) error {
	return fmt.Errorf("health: "+probe+" probe: "+format, args...)
}

// HTTP returns a probe that sends GET to an http or https URL and passes on a 2xx answer.
//
// Redirects are not followed (a login page is not health), no proxy is used, and each
// Check opens a new connection and closes it, so that it also notices a listener that
// accepts no new ones. Only ctx bounds the time. The error holds the status and the first
// line of the body; the query, which may hold a secret, is left out of it.
//
// It returns an error when the URL is invalid, or has no host, a bad port or another scheme.
func HTTP(rawURL string) (Probe, error) {
	u, err := url.Parse(rawURL)
	if strings.Contains(rawURL, "@") && (err != nil || u.User == nil && u.Host == "") {
		// Quoting the URL would show its password.
		return nil, badTarget("HTTP", "%s", "not a URL: write http://[user:password@]host[:port]/path, "+
			"with special characters of user and password percent-encoded (# is %23, / is %2F, ? is %3F)")
	}
	if err != nil && !strings.Contains(rawURL, "://") { // host:port, for which the parser's own error is hard to understand
		return nil, badTarget("HTTP", "%q must start with http:// or https://", rawURL)
	}
	if err != nil {
		return nil, badTarget("HTTP", "%w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, badTarget("HTTP", "%q must start with http:// or https://", u.Redacted())
	}
	if u.Hostname() == "" {
		return nil, badTarget("HTTP", "%q has no host", u.Redacted())
	}
	if err := checkPort(u.Port()); err != nil && u.Port() != "" {
		return nil, badTarget("HTTP", "%q: %w", u.Redacted(), err)
	}
	return &httpProbe{
		url:  u.String(),
		name: "GET " + (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(),
		client: &http.Client{
			Transport: &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}, nil
}

type httpProbe struct {
	url, name string
	client    *http.Client
}

func (p *httpProbe) Check(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	req.Header.Set("User-Agent", "mandate-health")
	resp, err := p.client.Do(req)
	if err != nil {
		var wrapped *url.Error // holds the whole URL with its query
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return fmt.Errorf("%s: %w", p.name, err)
	}
	defer resp.Body.Close()
	// Read the body, since some servers log a client that closes early, but not an endless one.
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 != 2 {
		problem := p.name + ": " + resp.Status
		if resp.StatusCode/100 == 3 {
			problem += " (redirects are not followed)"
		}
		if line := firstLine(body); line != "" {
			problem += ": " + line
		}
		return errors.New(problem)
	}
	if err != nil {
		return fmt.Errorf("%s: %s, but reading the body: %w", p.name, resp.Status, err)
	}
	return nil
}

// TCP returns a probe that passes when addr ("host:port") accepts a connection, which it
// closes at once. Only ctx bounds the time. It returns an error when addr
// has no port or a port outside of 1 to 65535.
func TCP(addr string) (Probe, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, badTarget("TCP", "%w", err)
	}
	if err := checkPort(port); err != nil {
		return nil, badTarget("TCP", "%q: %w", addr, err)
	}
	return Func(func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err // "dial tcp 127.0.0.1:1: connect: connection refused"
		}
		_ = conn.Close() // the connection was the answer
		return nil
	}), nil
}

func checkPort(port string) error {
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("port %q is not a number from 1 to 65535", port)
	}
	return nil
}
