package elector

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/setting"
	"github.com/mandate-dev/mandate/health"
)

// Config describes one candidate in one election. The zero value of
// a field means its default, and a negative DrainTimeout, Cooldown
// or MaxTerm means none; no duration may exceed a day. New refuses settings that
// can't work, and reports all problems at once.
type Config struct {
	// Election is the name that all candidates share. Required; no spaces,
	// no braces, at most 200 bytes. A name with a #, such as orders#7, is that of an election of a group of
	// shards (package shard), in which only its members campaign: Run refuses it with ErrPermanent.
	Election string
	// ID names this candidate. Default: host name, process id and a random
	// part. Two running candidates must not share an id: nothing would distinguish them.
	// When a second one starts, both log it, and Candidates and package doctor show both.
	ID string
	// Advertise is where this candidate can be reached when it leads, in any form (an
	// address, a URL) without spaces, at most 256 bytes. Followers and operators see it.
	Advertise string
	// Version is the version of the program. Operators see it, and SuccessionPriority and
	// SuccessionSeniority use it: of equal candidates the one with the newer version, by Semantic
	// Versioning, leads next, so that a deploy moves the leadership once. A version that is not
	// semantic counts as older than no other. A race ignores it.
	// Default: the version that the build recorded for the main module, if any.
	Version string

	// Lease is how long leadership lasts without a renewal: a leader that dies without
	// releasing the lock is replaced after this time. At least 50 ms. Default 10 s. All
	// candidates must use the same. It is renewed every quarter of the lease, and a request to a
	// node takes at most a fifth: a node that is farther away can't be used. With a round trip of at most an eighth of the lease, and at most half a second, a
	// term also survives a reset of all connections, and with one of up to an eleventh (with TLS
	// a sixteenth) their silent loss; a database number costs one more trip.
	Lease time.Duration
	// StopMargin is how long before the lease ends the work is cancelled.
	// Default a quarter of the lease.
	StopMargin time.Duration
	// DrainTimeout is how long the lease is kept while the work stops after a
	// resignation, for a handover or at shutdown. Default one lease.
	DrainTimeout time.Duration
	// Cooldown is the pause before this candidate campaigns again after it was
	// unhealthy (doubling each time that this happens in a row, up to 16 times),
	// resigned, or handed over (a transfer, the Succession, MaxTerm). Default one lease.
	Cooldown time.Duration

	// Succession names the next leader. Default empty, a race: the first to claim leads.
	Succession string
	// Priority is for SuccessionPriority: the candidate with the highest one leads.
	Priority int
	// MaxTerm ends a term after this time, in favour of the candidate that the
	// Succession names. If there is no other candidate, this one leads again after
	// its Cooldown; until then there is no leader. During a pause, and while a majority
	// of the nodes refuses writes, the term continues. At least a lease. Default 0: no limit.
	MaxTerm time.Duration

	// Probe is checked at all times, including before campaigning: an unhealthy
	// candidate does not campaign.
	// Default: always healthy.
	Probe         health.Probe
	ProbeSettings health.Settings
	// WorkProbe checks the work that only a leader does (health.Heartbeat, a
	// port that only the leader opens). It is checked only during a term, and the
	// start of the work counts as its first success. Default: always healthy.
	WorkProbe         health.Probe
	WorkProbeSettings health.Settings

	// OnOverrun is called, on its own goroutine, when work is still running although
	// its lease has expired: another leader may already be running. Ending the process
	// is a good response. Default: the overrun is only logged and published.
	OnOverrun func(*Term)
	// Logger gets one line per change of state. Default slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	t := c.timing().WithDefaults()
	c.Lease, c.StopMargin = t.Lease, t.StopMargin
	c.DrainTimeout = max(0, cmp.Or(c.DrainTimeout, c.Lease)) // negative: none
	c.Cooldown = max(0, cmp.Or(c.Cooldown, c.Lease))
	c.MaxTerm = max(0, c.MaxTerm)
	if c.ID == "" {
		c.ID = defaultID()
	}
	if c.Version == "" {
		c.Version = buildVersion()
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" || protocol.CheckWord("", info.Main.Version, protocol.MaxAdvertise, "") != nil {
		return ""
	}
	return info.Main.Version
}

func defaultID() string {
	host, err := os.Hostname()
	if err != nil || protocol.CheckWord("", host, protocol.MaxName, "") != nil {
		host = "host"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}

// MaxStopMargin returns the longest StopMargin that the lease has room for: two
// renewals must fit in before the work is cancelled. It is zero when New refuses the lease.
func (c Config) MaxStopMargin() time.Duration { return c.timing().WithDefaults().MaxStopMargin() }

func (c Config) timing() lease.Timing {
	return lease.Timing{Lease: c.Lease, StopMargin: c.StopMargin}
}

// validate returns what is wrong with a configuration as it was given, without the defaults that follow from it.
func (c Config) validate() error {
	problems := []error{protocol.CheckWord("Election", c.Election, protocol.MaxName, "{}")}
	for _, f := range []struct {
		name, value string
		most        int
	}{{"ID", c.ID, protocol.MaxName}, {"Advertise", c.Advertise, protocol.MaxAdvertise}, {"Version", c.Version, protocol.MaxAdvertise}} {
		if f.value != "" {
			problems = append(problems, protocol.CheckWord(f.name, f.value, f.most, ""))
		}
	}
	if !slices.Contains([]string{"", SuccessionPriority, SuccessionSeniority}, c.Succession) {
		problems = append(problems, setting.Errorf("Succession", " is %q: leave it empty, or use SuccessionPriority or SuccessionSeniority", c.Succession))
	}
	if c.Priority != 0 && c.Succession != SuccessionPriority {
		problems = append(problems, setting.Errorf("Priority", " is %d, which does nothing without the Succession %s: use that for all candidates, or leave it out", c.Priority, SuccessionPriority))
	}
	t := c.timing().WithDefaults()
	problems = append(problems, t.Problems()...)
	if c.MaxTerm >= time.Millisecond && c.MaxTerm < t.Lease {
		problems = append(problems, setting.Errorf("MaxTerm", " is %v: give at least a lease (%v)", c.MaxTerm, t.Lease))
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"StopMargin", c.StopMargin}, {"DrainTimeout", c.DrainTimeout}, {"Cooldown", c.Cooldown}, {"MaxTerm", c.MaxTerm}} {
		problems = append(problems, setting.CheckUnit(f.name, f.value))
		if f.value > lease.MaxLease {
			problems = append(problems, setting.Errorf(f.name, " is %v: give at most %v", f.value, lease.MaxLease))
		}
	}
	if err := c.ProbeSettings.Validate(); err != nil {
		problems = append(problems, setting.Errorf("ProbeSettings", ": %w", err))
	}
	if err := c.WorkProbeSettings.Validate(); err != nil {
		problems = append(problems, setting.Errorf("WorkProbeSettings", ": %w", err))
	}
	return setting.Join("config: ", problems...)
}

// Config.Succession is the rule that names the next leader. The lock alone decides who leads; the
// succession only decides for which candidate the others wait, and when a leader hands
// over. All candidates of an election should use the same. A preferred candidate that is
// dead or cut off delays an election by a quarter of a lease at most. All but the race
// are meant for some dozens of candidates: each keeps track of all others.
const (
	// SuccessionPriority: the healthy candidate with the highest Config.Priority leads; of
	// equals the one with the newer Config.Version, and then the one that has run longest (the
	// outcome of the bully algorithm). A leader hands over to a preferred candidate that has been
	// healthy for a lease.
	SuccessionPriority = string(peers.ByPriority)
	// SuccessionSeniority: the healthy candidate with the newest Config.Version leads next; of
	// equals the one that has run longest.
	SuccessionSeniority = string(peers.BySeniority)
)
