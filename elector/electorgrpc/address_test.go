package electorgrpc

import (
	"strings"
	"testing"
)

func TestAddressInWhatTheLeaderAdvertises(t *testing.T) {
	for advertised, want := range map[string]string{
		"10.0.0.7:8080": "10.0.0.7:8080", "orders-0.orders:50051": "orders-0.orders:50051", "[fd00::7]:8080": "[fd00::7]:8080",
		"http://10.0.0.7:8080": "10.0.0.7:8080", "http://10.0.0.7:8080/base?x=1": "10.0.0.7:8080", "grpc://a:1": "a:1",
		"http://a": "a:80", "https://a/": "a:443", "https://[fd00::7]": "[fd00::7]:443", "https://[fd00::7]:8443": "[fd00::7]:8443",
	} {
		if got, err := hostPort(advertised); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", advertised, got, err, want)
		}
	}
	for _, advertised := range []string{
		"10.0.0.7", ":8080", "a:0", "a:65536", "a:http", "a:-1", "a:1:2", "fd00::7:8080", "http://", "http://:80", "grpc://a", "unix:///run/a.sock", "http://a:%", "a:",
	} {
		if got, err := hostPort(advertised); err == nil || !strings.Contains(err.Error(), "http://10.0.0.7:8080") {
			t.Errorf("%q: %q, %v", advertised, got, err)
		}
	}
}
