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
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		shown := "the URL" // may have a password
		if !strings.Contains(rawURL, "@") {
			shown = strconv.Quote(rawURL)
		}
		return nil, fmt.Errorf("health: HTTP probe: %s must start with http:// or https:// and have a host; "+
			"percent-encode special characters of user and password (# is %%23, / is %%2F, ? is %%3F)", shown)
	}
	if err := checkPort(u.Port()); err != nil && u.Port() != "" {
		return nil, fmt.Errorf("health: HTTP probe: %q: %w", u.Redacted(), err)
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
		if wrapped, ok := errors.AsType[*url.Error](err); ok { // holds the whole URL with its query
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
// has no host, no port or a port outside of 1 to 65535.
func TCP(addr string) (Probe, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("health: TCP probe: %w", err)
	}
	if host == "" { // Go would take it for this machine, also where a variable was not set
		return nil, fmt.Errorf("health: TCP probe: %q has no host: write localhost:%s for this machine", addr, port)
	}
	if err := checkPort(port); err != nil {
		return nil, fmt.Errorf("health: TCP probe: %q: %w", addr, err)
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
