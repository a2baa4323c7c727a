package main

import (
	"context"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/mandate-dev/mandate/elector"
)

// connection is the Redis nodes and the elections on them that a command line has chosen.
type connection struct {
	*terminal

	redis      []string
	urlsFrom   string // the flag or variable that lists the URLs
	prefix     string
	prefixFrom string    // the flag or variable that set prefix
	given      nextFlags // the flags that another command needs to work on the same elections

	// Made while the command line is parsed.
	quorum   *elector.Quorum
	opened   []string          // the URLs of quorum, which may hold passwords
	election *elector.Election // of a command on one election
}

const defaultRedis = "redis://127.0.0.1:6379"

// secretFiles are the environment variables that name files which let mandate into Redis, each with
// the parameter of a URL that it becomes in each URL without its own.
var secretFiles = map[string]string{
	"MANDATE_REDIS_PASSWORD_FILE": "password_file",
	"MANDATE_REDIS_CA":            "ca_file",
	"MANDATE_REDIS_CERT":          "cert_file",
	"MANDATE_REDIS_KEY":           "key_file",
}

// urls returns the addresses of Redis, from the flag or else from the environment, with the files that
// the environment names added as parameters. What is wrong with an address, elector.Open reports.
func (c *connection) urls() []string {
	urls, values := c.listedURLs(), url.Values{}
	for env, param := range secretFiles {
		if v := c.variable(env); v != "" {
			values.Set(param, v)
		}
	}
	for i, u := range urls {
		urls[i] = c.withFiles(u, values)
	}
	return urls
}

// withFiles adds the files to an address that names none of its own, and warns of secrets that anybody
// can read. An invalid address is returned unchanged.
func (c *connection) withFiles(raw string, values url.Values) string {
	u, err := parseAddress(raw)
	if err != nil || u.Scheme == "" || raw == "" {
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
	c.warnReadable(q.Get("password_file"), q.Get("key_file"))
	if len(values) == 0 {
		return raw
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// parseAddress parses a URL, or what becomes one.
func parseAddress(raw string) (*url.URL, error) {
	if !strings.ContainsAny(raw, "@/") {
		raw = "redis://" + raw
	}
	return url.Parse(raw)
}

// listedURLs returns the addresses. The Redis of this machine is the default only where nothing was set and a
// person sees it: under a service manager or cron each machine would elect its own leader.
func (c *connection) listedURLs() []string {
	if c.urlsFrom = "--redis"; len(c.redis) > 0 {
		return splitURLs(strings.Join(c.redis, ","))
	}
	list, set := os.LookupEnv("MANDATE_REDIS")
	switch c.urlsFrom = "MANDATE_REDIS"; {
	case list != "":
		return splitURLs(list)
	case set:
		c.problem("MANDATE_REDIS is set, and empty: give it the URL of a Redis, or of 3 or 5 independent ones, separated by commas")
	case !term.IsTerminal(int(os.Stdin.Fd())):
		c.problem("no Redis is named: set MANDATE_REDIS, or give --redis. (That of this machine is the default at a terminal only)")
	default:
		c.log.Warn("no redis is named, using that of this machine", "address", defaultRedis, "set", "MANDATE_REDIS or --redis")
	}
	return []string{defaultRedis}
}

func splitURLs(list string) (urls []string) {
	for u := range strings.SplitSeq(list, ",") {
		urls = append(urls, strings.TrimSpace(u))
	}
	return urls
}

// connect makes the quorum, without I/O. Problems with the URLs are recorded.
func (c *connection) connect() error {
	urls := c.urls()
	q, err := elector.Open(urls...)
	if err != nil {
		c.addProblems(err, c.flagFor)
		// Open the default quorum, so that the rest of the configuration is checked, too.
		if q, err = elector.Open(defaultRedis); err != nil {
			return err
		}
	}
	c.quorum, c.opened = q.Namespace(c.prefix), urls
	return nil
}

// close closes what parsing the command line has made, and then flushes the log.
func (c *connection) close() {
	if c.quorum != nil {
		_ = c.quorum.Close()
	}
	logging.Disable()
	if c.logs != nil {
		c.logs.close(finalFlush)
	}
}

// anyElection is the name that is opened for a command on no single election. Opening it reveals
// what is wrong with the prefix and the other settings.
const anyElection = "any"

// openElection is the PreRunE of a command on one election, which its only argument names.
func (c *connection) openElection(_ *cobra.Command, args []string) error {
	name := anyElection
	if len(args) == 1 {
		name = args[0]
	} else {
		c.problem("%d arguments given: give the name of one election", len(args))
	}
	return c.open(name)
}

func (c *connection) open(name string) error {
	err := c.connect()
	if err != nil {
		return err
	}
	if c.election, err = c.quorum.Election(name); err != nil {
		c.addProblems(err, func(setting string) string {
			if setting == "Election" {
				return "NAME"
			}
			return c.flagFor(setting)
		})
	}
	return c.usage()
}

// onElection makes the RunE of a command on one election, to be used with openElection.
func (c *connection) onElection(do func(context.Context, *elector.Election) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error { return do(cmd.Context(), c.election) }
}

// flagFor returns the flag for a setting of the library, or what else has set it.
func (c *connection) flagFor(setting string) string {
	switch setting {
	case "Prefix":
		return c.prefixFrom
	case "Election", "ID", "Advertise", "Lease", "Cooldown", "Succession", "Priority", "Group", "Shards", "Weight":
		return "--" + strings.ToLower(setting)
	case "Version":
		return "--work-version"
	case "MaxTerm":
		return "--max-term"
	}
	if strings.HasPrefix(setting, "URL ") {
		return c.urlsFrom + ", " + setting
	}
	return setting
}

// holdPassword reports whether one of the URLs holds a password.
func holdPassword(urls []string) bool {
	return slices.ContainsFunc(urls, func(raw string) bool {
		u, err := parseAddress(raw)
		if err != nil {
			return true // the password may be in the part that cannot be parsed
		}
		_, has := u.User.Password()
		return has || u.Query().Has("password")
	})
}

// addProblems records the problems in an error of the library. names returns the flag for a
// setting.
func (t *terminal) addProblems(err error, names func(setting string) string) {
	switch err := err.(type) { //nolint:errorlint // each error of a joined one
	case *elector.ConfigError:
		for _, line := range err.Problems(names) {
			// Each of several elections has the same problem with the prefix.
			if !slices.Contains(t.problems, line) {
				t.problems = append(t.problems, line)
			}
		}
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			t.addProblems(one, names)
		}
	default:
		t.problem("%s", err)
	}
}

// nextFlags are the flags of this command line that choose the elections, ready to be appended to a
// suggested command, which without them would act on another Redis.
type nextFlags string

// command returns a mandate command to type next, for the same elections. All commands that are
// suggested to operators are made here.
func (f nextFlags) command(verb string, args ...string) string {
	text := "mandate " + verb
	for _, arg := range args {
		text += " " + shellWord(arg)
	}
	return text + string(f)
}

// shellWord quotes a word for the shell if necessary.
func shellWord(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@%+-") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// givenFlags returns the flags of this command line that choose the elections. Environment
// variables also apply to the next command. If a URL holds a password, one placeholder stands for all:
// without it the command would act on the Redis of the environment.
func (c *connection) givenFlags(flags *pflag.FlagSet) nextFlags {
	text := ""
	if f := flags.Lookup("prefix"); f != nil && f.Changed {
		text += " --prefix " + shellWord(c.prefix)
	}
	if len(c.redis) == 0 {
		return nextFlags(text)
	}
	urls := splitURLs(strings.Join(c.redis, ","))
	if holdPassword(urls) {
		urls = []string{"URL"}
	}
	for _, url := range urls {
		text += " --redis " + shellWord(url)
	}
	return nextFlags(text)
}
