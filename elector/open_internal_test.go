package elector

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// credentialsOf is how a client gets its user and password.
func credentialsOf(c redis.UniversalClient) func(context.Context) (user, password string, err error) {
	switch c := c.(type) {
	case *redis.Client:
		return c.Options().CredentialsProviderContext
	case *redis.ClusterClient:
		return c.Options().CredentialsProviderContext
	}
	return nil
}

// A password file goes with the user of the URL, for each kind of deployment, and is
// read whenever go-redis asks.
func TestPasswordFileOfURLs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pass word")
	named := "password_file=" + strings.ReplaceAll(file, " ", "%20")
	for url, user := range map[string]string{
		"redis://u%40x@127.0.0.1:1/3?" + named:                                                    "u@x",
		"redis://127.0.0.1:1?" + named:                                                            "",
		"rediss://u@127.0.0.1:1?" + named:                                                         "u",
		"unix://u@/tmp/socket?" + named:                                                           "u",
		"redis+cluster://u@127.0.0.1:1?addr=127.0.0.1:2&" + named:                                 "u",
		"redis+sentinel://own:secret@127.0.0.1:1?master_name=m&username=u&" + named:               "u",
		"rediss+sentinel://own:secret@127.0.0.1:1?master_name=m&" + named + "&dial_timeout=200ms": "",
	} {
		servertest.Must(t, os.WriteFile(file, []byte("one\n"), 0o600))
		c, err := NewClient(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		for _, password := range []string{"one", "two"} {
			servertest.Must(t, os.WriteFile(file, []byte(password+"\n"), 0o600))
			gotUser, gotPassword, err := credentialsOf(c)(t.Context())
			if gotUser != user || gotPassword != password || err != nil {
				t.Errorf("%s: %q, %q, %v", url, gotUser, gotPassword, err)
			}
		}
		_ = c.Close()
	}
	for url, says := range map[string]string{
		"redis://u:tops3cret@127.0.0.1:1?" + named:                               "two passwords",
		"redis+sentinel://127.0.0.1:1?master_name=m&password=tops3cret&" + named: "two passwords",
		"redis://u@127.0.0.1:1?password_file=":                                   "?password_file= is empty",
		"redis://:tops3cret@127.0.0.1:1?ca_file=/nosuch":                         "write rediss://",
		"redis://:tops3cret@127.0.0.1:1?nosuch=1&password_file=/nosuch":          "two passwords",
		"rediss://:tops3cret@127.0.0.1:1?ca_file=/nosuch":                        "no such file",
		"redis+sentinel://:tops3cret@127.0.0.1:1?" + named + "&nosuch=1":         "option nosuch is not known",
	} {
		_, err := NewClient(url)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "tops3cret") {
			t.Errorf("%s: %v, want %q", url, err, says)
		}
	}
}

// FuzzOpen: whatever stands in a URL, its password is in no error.
func FuzzOpen(f *testing.F) {
	f.Add("redis", "user", "", "h:6379/2?read_timeout=1s")
	f.Add("rediss", "", "#/?%zz", "h")
	f.Add("redis+sentinel", "u", "", "h:26379?master_name=m&addr=h2:1")
	f.Add("redis+cluster", "u", "@", "[::1]:7000?addr=:&addr=")
	f.Add("unix", "", "", "/run/redis.sock?db=x")
	f.Add("http", "%", ":", "\x00")
	f.Add("redis", "u:p@x?", "", "h:6379")
	f.Fuzz(func(t *testing.T, scheme, user, tail, rest string) {
		const password = "h7nter2"
		for _, raw := range []string{scheme + "://" + user + ":" + password + tail + "@" + rest, scheme + user + tail + rest} {
			q, err := Open(raw)
			if err == nil {
				q.Close()
				continue
			}
			if strings.Contains(err.Error(), password) {
				t.Fatalf("%q: the error shows the password: %v", raw, err)
			}
		}
	})
}
