package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// server is the program that a node runs. Most programs with the protocol of Redis also report a
// redis_version. It is the version that they imitate for clients, and not their own.
type server struct {
	name    string // Redis, Valkey, Dragonfly, ...
	version string // its own; empty when unknown
}

// serverFields are the INFO fields with a server's own version.
var serverFields = []struct{ name, field string }{
	{"Valkey", "valkey_version"},
	{"Dragonfly", "dragonfly_version"},
	{"Garnet", "garnet_version"},
	{"Kvrocks", "kvrocks_version"},
	{"Upstash", "upstash_version"},
}

// serverOf finds out a node's actual server from its INFO.
func serverOf(info map[string]string) server {
	s := server{name: "Redis", version: info["redis_version"]}
	// The name that an unknown server gives itself is still better than a wrong one.
	if name := info["server_name"]; name != "" && name != "redis" {
		s = server{name: name, version: info[name+"_version"]}
	}
	for _, known := range serverFields {
		if v := info[known.field]; v != "" {
			s = server{name: known.name, version: strings.TrimPrefix(strings.TrimPrefix(v, "df-"), "v")}
			break
		}
	}
	return s
}

func (s server) String() string { return strings.TrimSpace(s.name + " " + s.version) }

// minVersions are the servers that the tests run on (make servers), each with the first major
// version that can be expected to behave like the tested ones.
var minVersions = map[string]int{"Redis": 7, "Valkey": 7}

func (e *examination) version(f *registry.Facts) {
	s := serverOf(f.Info)
	major, err := strconv.Atoi(strings.SplitN(s.version, ".", 2)[0])
	least, tested := minVersions[s.name]
	switch {
	case f.InfoErr != nil:
		e.add(f.Node, "version", LevelUnknown, "grant +info to see it", "%s", problemOf(f.InfoErr))
	case !tested:
		e.add(f.Node, "version", LevelWarn, "try it before you rely on it: docs/servers.md lists what is known of each server", "%s: mandate is not tested with it", s)
	case err != nil:
		e.add(f.Node, "version", LevelUnknown, "", "the server does not report its version")
	case major < least:
		e.add(f.Node, "version", LevelWarn, fmt.Sprintf("use %s %d or later", s.name, least), "%s: mandate is not tested with it", s)
	default:
		e.add(f.Node, "version", LevelOK, "", "%s", s)
	}
}
