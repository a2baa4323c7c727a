package main

import (
	"cmp"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// settings lists the flags other than that for the list of URLs, each with its environment variable
// and its URL parameter.
func (f *accessFlags) settings() []accessSetting {
	return []accessSetting{
		{&f.password, "redis-password-file", "MANDATE_REDIS_PASSWORD_FILE", "password_file"},
		{&f.ca, "redis-ca", "MANDATE_REDIS_CA", "ca_file"},
		{&f.cert, "redis-cert", "MANDATE_REDIS_CERT", "cert_file"},
		{&f.key, "redis-key", "MANDATE_REDIS_KEY", "key_file"},
	}
}

type accessSetting struct {
	value            *string
	flag, env, param string
}

func (f *accessFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.urls, "redis-file", "", "`FILE` that holds the URLs, one per line (user and password are read at each new connection; env MANDATE_REDIS_FILE)")
	usage := map[string]string{
		"redis-password-file": "`FILE` that holds the password",
		"redis-ca":            "`FILE` with the CA of the servers' certificates, for rediss://",
		"redis-cert":          "`FILE` with the client's certificate, for rediss://",
		"redis-key":           "`FILE` with the key of that certificate",
	}
	for _, s := range f.settings() {
		flags.StringVar(s.value, s.flag, "", usage[s.flag]+" (read at each new connection; env "+s.env+")")
	}
}

// urls returns the Redis URLs, from a flag or else from the environment, with the
// files that the other flags name added as parameters.
func (a *app) urls() []string {
	urls, file := a.listedURLs()
	values := url.Values{}
	if file != "" {
		values.Set("url_file", file)
	}
	for _, s := range a.access.settings() {
		if v := cmp.Or(*s.value, os.Getenv(s.env)); v != "" {
			values.Set(s.param, v)
		}
	}
	if len(values) == 0 {
		return urls
	}
	all := make([]string, len(urls))
	for i, u := range urls {
		all[i] = withFiles(u, values)
	}
	return all
}

// withFiles adds the files to a URL that names none of its own. An invalid URL is returned
// unchanged; elector.Open reports it.
func withFiles(raw string, values url.Values) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return raw
	}
	q := u.Query()
	for param, v := range values {
		_, own := u.User.Password()
		if strings.HasSuffix(u.Scheme, "+sentinel") { // in such a URL the userinfo is for the sentinels
			own = q.Has("password")
		}
		if q.Has(param) || param == "password_file" && own {
			continue
		}
		q[param] = v
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// listedURLs returns the URLs, and the file that they were read from if there is one that can be
// read again.
func (a *app) listedURLs() (urls []string, file string) {
	a.urlsFrom, file = "--redis", a.access.urls
	switch {
	case len(a.redis) > 0 && file != "":
		a.problem("--redis and --redis-file are given: give one of them")
		return []string{defaultRedis}, ""
	case len(a.redis) > 0:
		return a.redis, ""
	case file != "":
		return a.readURLs("--redis-file", file)
	}
	list, file := os.Getenv("MANDATE_REDIS"), os.Getenv("MANDATE_REDIS_FILE")
	if list != "" && file != "" {
		a.problem("MANDATE_REDIS and MANDATE_REDIS_FILE are set: set one of them")
		return []string{defaultRedis}, ""
	}
	if file != "" {
		return a.readURLs("MANDATE_REDIS_FILE", file)
	}
	if urls := splitURLs(list); len(urls) > 0 {
		a.urlsFrom = "MANDATE_REDIS"
		return urls, ""
	}
	return []string{defaultRedis}, ""
}

// readURLs reads a file of URLs, one per line or separated by commas; # begins a comment line. The
// file may hold passwords, so its content is never quoted. The name of the file is returned, too,
// unless it is a pipe, which can be read only once.
func (a *app) readURLs(from, name string) (urls []string, file string) {
	a.urlsFrom = from
	const maxSize = 1 << 20
	info, err := os.Stat(name)
	if err == nil && info.Size() > maxSize {
		a.problem("%s: %s is larger than 1 MiB", from, name)
		return []string{defaultRedis}, ""
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		a.problem("%s: the file with the URLs can't be read: %v", from, err)
		return []string{defaultRedis}, ""
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			urls = append(urls, splitURLs(line)...)
		}
	}
	if len(urls) == 0 {
		a.problem("%s: %s is empty: write one URL a line", from, name)
		return []string{defaultRedis}, ""
	}
	a.warnReadable(name)
	if info.Mode().IsRegular() {
		file = name
	}
	return urls, file
}

func splitURLs(list string) []string {
	var urls []string
	for u := range strings.SplitSeq(list, ",") {
		if u = strings.TrimSpace(u); u != "" {
			urls = append(urls, u)
		}
	}
	return urls
}

// warnExposed warns of files with secrets that every user of this machine may read.
func (a *app) warnExposed(urls []string) {
	warned := map[string]bool{}
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil {
			continue
		}
		for _, param := range []string{"password_file", "key_file"} {
			if name := u.Query().Get(param); name != "" && !warned[name] {
				warned[name] = true
				a.warnReadable(name)
			}
		}
	}
}

func (a *app) warnReadable(name string) {
	info, err := os.Stat(name)
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
		a.log.Warn("secret file is readable by every user", "file", name, "mode", info.Mode().Perm().String(), "advice", "chmod o-r")
	}
}
