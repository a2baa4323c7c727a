package electorgrpc

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// hostPort returns the address in what a leader advertises: host:port, or a URL with it.
func hostPort(advertised string) (string, error) {
	address := advertised
	if strings.Contains(advertised, "://") {
		u, err := url.Parse(advertised)
		if err != nil {
			return "", unusable(advertised)
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		address = net.JoinHostPort(u.Hostname(), port)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return "", unusable(advertised)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", unusable(advertised)
	}
	return address, nil
}

func unusable(advertised string) error {
	return fmt.Errorf("it advertises %q, which is no address such as 10.0.0.7:8080 or http://10.0.0.7:8080 (Config.Advertise, --advertise)", advertised)
}
