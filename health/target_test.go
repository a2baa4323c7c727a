package health_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/health"
)

// A program that takes the URL from a flag or a file shows its own name for that, and not
// the name of the function it passed the URL to.
func TestTargetError(t *testing.T) {
	for target, want := range map[string]string{
		"localhost:80":              `"localhost:80" must start with http:// or https://`,
		"http://":                   `"http:" has no host`,
		"http://h:0":                `"http://h:0": port "0" is not a number from 1 to 65535`,
		"http://u:p#w@h/":           "not a URL: write http://[user:password@]host[:port]/path",
		"http://u:secret@h:99999/x": `port "99999" is not a number`,
	} {
		_, err := health.HTTP(target)
		wantTarget(t, err, "HTTP", want)
	}
	for target, want := range map[string]string{"h": "missing port in address", "h:0": `"h:0": port "0" is not a number from 1 to 65535`} {
		_, err := health.TCP(target)
		wantTarget(t, err, "TCP", want)
	}
}

func wantTarget(t *testing.T, err error, probe, want string) {
	t.Helper()
	var of *health.TargetError
	if !errors.As(err, &of) || of.Probe != probe || !strings.Contains(of.Problem(), want) ||
		of.Error() != "health: "+probe+" probe: "+of.Problem() || strings.Contains(of.Error(), "secret") {
		t.Errorf("%#v: %v, want a problem of %s: %s", err, err, probe, want)
	}
}
