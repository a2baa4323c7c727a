package access

import (
	"strings"
	"testing"
)

// What names a host is accepted, with the port that it leaves out.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"redis":                              "redis://redis:6379",
		"redis:6379":                         "redis://redis:6379", // the usual value in a compose file
		" 10.0.0.5:7000\r\n":                 "redis://10.0.0.5:7000",
		"[::1]:7000":                         "redis://[::1]:7000",
		"[::1]":                              "redis://[::1]:6379",
		"[fe80::1%eth0]:7000":                "redis://[fe80::1%25eth0]:7000",
		"my_redis-1.svc.":                    "redis://my_redis-1.svc.:6379",
		"REDIS://H:7000/2":                   "redis://H:7000/2",
		"redis://h":                          "redis://h:6379",
		"redis://[fe80::1%eth0]":             "redis://[fe80::1%25eth0]:6379",
		"redis://[fe80::1%25eth0]:1":         "redis://[fe80::1%25eth0]:1",
		"redis://u:p%40$&+!=;ss@h/":          "redis://u:p%40$&+%21=;ss@h:6379/",
		"redis://u:p@ss@h":                   "redis://u:p%40ss@h:6379",
		"redis://:@h":                        "redis://:@h:6379",
		"redis://u@h?password_file=/p":       "redis://u@h:6379?password_file=/p",
		"valkey://h":                         "redis://h:6379",
		"valkeys://h":                        "rediss://h:6379",
		"Valkeys+Cluster://h?addr=i&addr=:1": "",
		"valkey+cluster://h?addr=i&addr=j:1": "redis+cluster://h:6379?addr=i%3A6379&addr=j%3A1",
		"redis+sentinel://u:p@h/3?master_name=m&addr=i&password=x&username=y": "redis+sentinel://u:p@h:26379/3?addr=i%3A26379&master_name=m&password=x&username=y",
		"unix:///run/redis.sock?db=2":                                         "unix:///run/redis.sock?db=2",
		"unix://u:p@/run/redis.sock":                                          "unix://u:p@/run/redis.sock",
	} {
		u, err := Parse(raw)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q is accepted as %s", raw, u)
		case want != "" && err != nil:
			t.Errorf("%q: %v", raw, err)
		case want != "" && u.String() != want:
			t.Errorf("%q is %s, want %s", raw, u, want)
		}
	}
}

// What is missing in an address never becomes localhost, what is wrong is named with what to write, and
// nothing is quoted: hunter2 may be a password.
func TestWrongAddresses(t *testing.T) {
	t.Parallel()
	const (
		noHost, escaped, placeholder, another, sentinel = "no host: write redis://", "# is %23", "placeholder", "in brackets: [::1]:6379", "redis+sentinel://host:26379?master_name=NAME"
	)
	for want, all := range map[string][]string{
		"it is empty": {"", " ", "\n"},
		noHost:        {"redis://", "redis://:6379", "redis://:hunter2@:6379", "redis:///2", "rediss://?db=1", ":6379", "redis+sentinel://?master_name=m", "redis+cluster://:6379", "redis://u:hunter2@"},
		"no port":     {"h:", "redis://h:", "redis://:hunter2@h:", "[::1]:"},
		"from 1 to 65535": {
			"h:0", "h:65536", "redis://h:0", "redis://h:99999", "redis+sentinel://h?master_name=m&addr=i:0",
		},
		another:                   {"redis:10.0.0.5:6379", "::1", "::1:6379", "redis://::1:6379", "redis://h:1:2", "[h]:1", "-h", "h:hunter2", "h:+1", "redis:10.0.0.5", "h:６", "a;b", "redis://1::2/", "[::1", "h!:1"},
		"the host is a number":    {"6379", "redis://6379", "1:2"},
		"to listen on":            {"0.0.0.0:6379", "redis://[::]:6379", "redis://0.0.0.0", "[::%eth0]:1"},
		"without one":             {"\ufeffredis://h", "\ufeffh"},
		"in quotes":               {`"redis://:hunter2@h"`, `'h:1'`, "redis://h\"", "“redis://h”", `["redis://h"`, `"redis://h"]`, "`h`"},
		"a name and =":            {"MANDATE_REDIS=redis://:hunter2@h", "export REDIS_URL=redis://h", "--redis=h", "password=hunter2", "host=h"},
		placeholder:               {"${REDIS_URL}", "redis://:${PASSWORD}@h", "redis://<TOKEN>@h", "redis://u:<your password>@h", "$REDIS_HOST:6379", "redis://$(HOST):6379", "redis://:$PASSWORD@h", "{{ redis_url }}", "redis://{host}", "%REDIS%", "redis://%HOST%:1", "<redis-url>", "redis://h:${PORT}", "redis://h/${DB}", "redis://$HOST"},
		"separate them by commas": {"redis://a,redis://b", "redis://a redis://b", "a:1 b:2", "redis://a\nredis://b", "redis://a;redis://b", "redis://:hunter2 x@h", "a | b"},
		"can't be seen":           {"redis://h\u200b", "redis://\u00a0h", "h\x00:1", "redis://u:hunter2\x7f@h"},
		"needs a URL":             {"user:hunter2@h:6379", "hunter2@h", "ter2@h:1"},
		"unix:///path":            {"/run/redis.sock", "./redis.sock", "unix:/run/redis.sock", "unix://run/redis.sock", "unix://", "unix:///"},
		"it has no ://":           {"h:6379/2", "redis:/h", "h?db=2", "redis:/h:6379"},
		escaped:                   {"redis://user:hunter2#x@h:6379", "redis://:hunter2/x@h:6379", "redis://user:hunter2?x@h:6379", "rediss://:hunter2%zz@h:6379", "redis://:hunter2", "redis://user:hunter2%", "redis://[::1", "redis://u:hun<ter2@h", "redis://h%20i", "redis://h:hunter2"},
		"holds a #":               {"redis://h#hunter2", "redis://h/0#"},
		sentinel:                  {"redis+sentinel://h:1/mymaster/0", "redis+sentinel://h:1/mymaster?master_name=m", "redis://h:1,i:2,j:3", "redis+sentinel://h:1,i:2?master_name=m"},
		"is not known: use":       {"tcp://10.0.0.1:6379", "memcached://h", "x://hunter2@h", "redis+srv://h", "rediss+foo://h", "sentinel://h:26379/m", "redis-sentinel://hunter2@h:26379/0", "redis-cluster://h", "https://hunter2@h.upstash.io", "redis+tls://h", "redis+socket:///run/hunter2"},
		"no database numbers":     {"redis+cluster://h/2", "redis+cluster://h/x"},
		"no database number: wr":  {"redis://h/x", "redis://h/-1", "redis://h/+1", "redis://h/1/2", "redis://h/01", "redis://h/hunter2"},
		"there is a user":         {"redis://hunter2@h", "redis://hunter2:@h", "rediss://default@h", "unix://hunter2@/s", "redis+cluster://hunter2@h", "redis+sentinel://hunter2@h?master_name=m&password_file=/p"},
		"there is a &username=":   {"redis+sentinel://h?master_name=m&username=hunter2"},
		"options can't be read":   {"redis://h?dial_timeout=1s;read_timeout=2s", "redis://h?x=%zz"},
		"&addr=: no host":         {"redis+cluster://h?addr=", "redis+sentinel://h?master_name=m&addr=:1"},
	} {
		for _, raw := range all {
			u, err := Parse(raw)
			switch {
			case err == nil:
				t.Errorf("%q is accepted as %s", raw, u)
			case !strings.Contains(err.Error(), want):
				t.Errorf("%q: %v, want %q", raw, err, want)
			case strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), "ter2"):
				t.Errorf("%q: it is quoted: %v", raw, err)
			}
		}
	}
}

// Whatever is pasted, no error quotes it, and no panic comes of it.
func FuzzParse(f *testing.F) {
	for _, raw := range []string{"redis://u:p@h:1/2?db=3", "[fe80::1%eth0]:1", "redis+sentinel://h?master_name=m&addr=i:1", "\ufeff\"${X}\"", "unix:///x", "a:b@c"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, secret string) {
		secret = "hunter2" + secret
		for _, raw := range []string{secret, "redis://" + secret + "@h", "redis://u:" + secret + "@h", "redis+sentinel://:" + secret, secret + "@h:1"} {
			u, err := Parse(raw)
			switch {
			case err != nil && strings.Contains(err.Error(), "hunter2") && !strings.HasPrefix(err.Error(), "scheme "):
				t.Errorf("%q: %v", raw, err)
			case err == nil && u.Scheme != "unix" && (u.Hostname() == "" || u.Port() == ""):
				t.Errorf("%q has no host or port: %s", raw, u)
			}
		}
	})
}
