package main

import (
	"net/url"
	"os"
	"strings"
)

// secretFiles are the environment variables that name files which let mandate into Redis, each with
// the parameter of a URL that it becomes in each URL without its own.
var secretFiles = map[string]string{
	"MANDATE_REDIS_PASSWORD_FILE": "password_file",
	"MANDATE_REDIS_CA":            "ca_file",
	"MANDATE_REDIS_CERT":          "cert_file",
	"MANDATE_REDIS_KEY":           "key_file",
}

// urls returns the Redis URLs, from the flag or else from the environment, with the files that the
// environment names added as parameters.
func (a *app) urls() []string {
	urls, file := a.listedURLs()
	values := url.Values{}
	if file != "" {
		values.Set("url_file", file)
	}
	for env, param := range secretFiles {
		if v := os.Getenv(env); v != "" {
			values.Set(param, v)
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
	if a.urlsFrom = "--redis"; len(a.redis) > 0 {
		return splitURLs(strings.Join(a.redis, ",")), ""
	}
	list, file := os.Getenv("MANDATE_REDIS"), os.Getenv("MANDATE_REDIS_FILE")
	if list != "" && file != "" {
		a.problem("MANDATE_REDIS and MANDATE_REDIS_FILE are set: set one of them")
		return []string{defaultRedis}, ""
	}
	if file != "" {
		return a.readURLs(file)
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
func (a *app) readURLs(name string) (urls []string, file string) {
	const from = "MANDATE_REDIS_FILE"
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
