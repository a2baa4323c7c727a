package doctor

import (
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// The relevant lines of INFO: recorded from Debian's Redis and Valkey, and for
// the others written as their sources print them (docs/servers.md).
var infoTexts = map[string]string{
	"redis 7.0":     "# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:00000000\r\nredis_mode:standalone\r\nos:Linux 6.1 x86_64\r\n",
	"redis 6":       "# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\n",
	"valkey 8.0":    "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\nserver_mode:standalone\r\nos:Linux 6.1 x86_64\r\n",
	"dragonfly":     "# Server\r\nredis_version:7.4.0\r\ndragonfly_version:df-v1.40.1\r\nredis_mode:standalone\r\narch_bits:64\r\n",
	"garnet":        "# Server\r\ngarnet_version:1.0.84\r\nserver_name:garnet\r\nos:Unix 6.1\r\nrun_id:abc\r\nredis_version:7.4.3\r\nredis_mode:standalone\r\n",
	"another fork":  "# Server\r\nredis_version:7.2.4\r\nserver_name:redthing\r\nredthing_version:1.2\r\n",
	"nameless fork": "# Server\r\nredis_version:7.2.4\r\nserver_name:redthing\r\n",
	"nothing told":  "# Server\r\nredis_mode:standalone\r\n",
}

func TestServerIsNamedTruly(t *testing.T) {
	for name, want := range map[string]struct {
		level  Level
		found  string
		advice string
	}{
		"redis 7.0":     {LevelOK, "Redis 7.0.15", ""},
		"redis 6":       {LevelWarn, "Redis 6.2.14: mandate is not tested with it", "use Redis 7 or later"},
		"valkey 8.0":    {LevelOK, "Valkey 8.0.1", ""},
		"dragonfly":     {LevelWarn, "Dragonfly 1.40.1: mandate is not tested with it", "docs/servers.md"},
		"garnet":        {LevelWarn, "Garnet 1.0.84: mandate is not tested with it", "docs/servers.md"},
		"another fork":  {LevelWarn, "redthing 1.2: mandate is not tested with it", "docs/servers.md"},
		"nameless fork": {LevelWarn, "redthing: mandate is not tested with it", "docs/servers.md"},
		"nothing told":  {LevelUnknown, "the server does not report its version", ""},
	} {
		f := goodFacts("a")
		f.Info = registry.InfoFields(infoTexts[name])
		got := find(judge(f), "version")
		if got.Level != want.level || got.Found != want.found || !strings.Contains(got.Advice, want.advice) || (want.advice == "") != (got.Advice == "") {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// Dragonfly calls its role "replica", and its policy "eviction" when it is a cache.
func TestTermsOfOtherServers(t *testing.T) {
	f := goodFacts("a")
	f.Info["role"], f.Info["maxmemory"], f.Info["maxmemory_policy"] = "replica", "2000000", "eviction"
	findings := judge(f)
	for _, check := range []string{"failover", "eviction"} {
		if got := find(findings, check); got.Level != LevelFail {
			t.Errorf("%s: %+v", check, got)
		}
	}
}
