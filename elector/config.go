package elector

import (
	"context"
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
	"github.com/mandate-dev/mandate/elector/internal/semver"
	"github.com/mandate-dev/mandate/elector/internal/setting"
	"github.com/mandate-dev/mandate/health"
)

// MaxLease is the longest lease that New accepts: a leader that crashed is not replaced for
// that long. No other duration of a Config is longer.
const MaxLease = lease.MaxLease

// Config describes one candidate in one election. The zero value of
// a field means its default, and a negative DrainTimeout, Cooldown, RestartDelay,
// MaxTerm or WarmTimeout means none; no duration is above MaxLease. New refuses what can't work, all
// problems at once.
type Config struct {
	// Election is the name that all candidates share. Required; no spaces,
	// no braces, at most 200 bytes. While a group of shards of package shard exists, such as
	// orders, ErrPermanent refuses its name, orders/assigner, and orders/0 to orders/16383, of as
	// many shards as it may grow to.
	Election string
	// ID names this candidate. Default: host name, process id and a random
	// part. Two living candidates must not share one: nothing would distinguish them.
	// When a second one starts, both log it, and Candidates and package doctor show both.
	ID string
	// Advertise is where this candidate can be reached when it leads, in any form (an
	// address, a URL) without spaces, at most 256 bytes. Followers and operators see it.
	// Elector.SetAdvertise changes it later.
	Advertise string
	// Version is the version of the program, for operators, and for SuccessionPriority and
	// SuccessionSeniority: of equals the newer one leads next, by Semantic Versioning, so that a
	// deploy moves the leadership once. What is no semantic version counts as older than no other. With
	// SuccessionRace and SuccessionRotation it decides nothing about who is next: those who come first, or stand next in the ring, may be
	// of an old version, unless NoDowngrade keeps them from it. Default:
	// the one that the build recorded for the main module, if any.
	Version string
	// NoDowngrade keeps this candidate from leading once one with a newer Version has led that has it set,
	// too: after a deploy an old replica must not run against data that the new version has
	// written. The highest version that has led is kept in Redis, and outlives all candidates. One that is older
	// follows, logs it, and reports it as CandidateStatus.Outdated, until Election.AllowOlder. A candidate
	// without a semantic version, or without NoDowngrade, neither refuses nor is remembered.
	NoDowngrade bool

	// Lease is how long a leadership holds without renewal: a leader that dies
	// without releasing is replaced after it. At least 50 ms. Default 10 s. All candidates must
	// use the same.
	Lease time.Duration
	// RenewEvery is the time between renewals. Default a quarter of the lease, at
	// least 10 ms. It also bounds each request to a node: to four fifths of it (a fifth
	// of the lease), from when it is sent. A node that is farther away can't be used. Up to
	// a round trip of an eighth of the lease, and half a second, a term also survives the
	// loss of all connections; TLS and a database number cost a trip more, each.
	RenewEvery time.Duration
	// StopMargin is how long before the lease ends the work is cancelled.
	// Default a quarter of the lease.
	StopMargin time.Duration
	// DrainTimeout is how long the lease is kept while the work stops after a
	// resignation or at shutdown. Default one lease.
	DrainTimeout time.Duration
	// Cooldown is the pause before this candidate runs again after it was
	// unhealthy or its work failed (doubling with each trip in a row, up to 16 times),
	// resigned, or made room for another one (a transfer, the Succession, MaxTerm).
	// Default one lease.
	Cooldown time.Duration
	// RestartDelay is the pause before this candidate runs again when its work
	// returned nil or a RestartError. Default a tenth of the lease.
	RestartDelay time.Duration
	// RetryFailed keeps Run going when the work returns an error: the term ends as failed,
	// in the log and in the history too, and the candidate runs again after its Cooldown,
	// so that another one can lead meanwhile. Default: the error ends Run.
	RetryFailed bool

	// Succession is who leads after whom. Default SuccessionRace: who comes first.
	Succession Succession
	// Priority counts with SuccessionPriority: the higher one leads.
	Priority int
	// Observer makes a replica that follows the election, answers roll calls and is counted among the
	// candidates as observing, but never campaigns: no leader hands over to it, and Run calls no work.
	// Campaign and TryCampaign return ErrNotLeader at once.
	Observer bool
	// MaxTerm ends a term after this time, in favour of whom the Succession
	// names. A candidate that is alone leads again after its Cooldown; until
	// then there is no leader. During a pause, and while a majority of the nodes
	// refuses writes, the term continues. Default 0: no limit.
	MaxTerm time.Duration

	// Probe is checked at all times, including before campaigning: an unhealthy
	// candidate does not campaign.
	// Default: always healthy.
	Probe         health.Probe
	ProbeSettings health.Settings
	// WorkProbe looks at the work that only a leader does (health.Heartbeat, a
	// port that only the leader opens). It is checked during a term only, and the
	// start of the work counts as its first success. Default: always healthy.
	WorkProbe         health.Probe
	WorkProbeSettings health.Settings

	// Warm gets this candidate ready to lead, such as by filling a cache, when the leader is about to hand over to it as planned: at a
	// transfer, and by Succession at a resignation, a drain, MaxTerm or a shutdown. The leader's work continues meanwhile, for
	// WarmTimeout at most. A candidate whose Warm fails, panics or does not begin is passed over. It is not called
	// before an unplanned election, so the work must get ready where Warm has not. ctx ends when the leader
	// waits no longer, when this candidate is elected, and with Run; a Warm that ignores that runs beside the work. One runs at a time. All
	// candidates should have it: a leader without it waits for no heir. Default: none.
	Warm func(ctx context.Context) error
	// WarmTimeout is for how long at most this candidate, as the leader, puts a planned end of its term off
	// until the next leader is warm; allow that much more where a process that stops is killed after a time. Default one
	// lease; negative: not at all.
	WarmTimeout time.Duration

	// OnOverrun is called, on its own goroutine, when work is still running although
	// its lease has ended: another leader may be running. Ending the process is
	// a good answer. Default: the overrun is logged and reported only.
	OnOverrun func(*Term)
	// Logger gets one line per change of state. Default slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	t := c.timing().WithDefaults()
	c.Lease, c.RenewEvery, c.StopMargin = t.Lease, t.RenewEvery, t.StopMargin
	def(&c.DrainTimeout, c.Lease)
	def(&c.Cooldown, c.Lease)
	def(&c.WarmTimeout, c.Lease)
	def(&c.RestartDelay, c.Lease/10)
	for _, d := range []*time.Duration{&c.DrainTimeout, &c.Cooldown, &c.RestartDelay, &c.MaxTerm, &c.WarmTimeout} {
		*d = max(0, *d) // negative: none
	}
	if c.ID == "" {
		c.ID = defaultID()
	}
	if c.Version == "" {
		c.Version = buildVersion()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
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

// guarded is the version below which no candidate may lead once this one has; empty: any may.
func (c Config) guarded() string {
	if !c.NoDowngrade || !semver.Valid(c.Version) {
		return ""
	}
	return c.Version
}

// SemanticVersion reports whether versions are ordered by this one: by Semantic Versioning, with or
// without a v in front.
func SemanticVersion(version string) bool { return semver.Valid(version) }

// MaxStopMargin is the longest StopMargin that the lease has room for, with this
// RenewEvery: two renewals must fit in before the work is cancelled. Zero when the lease,
// or its default, is one that New refuses.
func (c Config) MaxStopMargin() time.Duration { return c.timing().WithDefaults().MaxStopMargin() }

func (c Config) timing() lease.Timing {
	return lease.Timing{Lease: c.Lease, RenewEvery: c.RenewEvery, StopMargin: c.StopMargin}
}

func (c Config) validate() error {
	problems := []error{
		protocol.CheckWord("Election", c.Election, protocol.MaxName, "{}"),
		protocol.CheckWord("ID", c.ID, protocol.MaxName, ""),
		checkAdvertise(c.Advertise),
	}
	if c.Version != "" {
		problems = append(problems, protocol.CheckWord("Version", c.Version, protocol.MaxAdvertise, ""))
	}
	if !c.Succession.known() {
		problems = append(problems, setting.Errorf("Succession", " is %q: use SuccessionRace, SuccessionPriority, SuccessionSeniority or SuccessionRotation", string(c.Succession)))
	}
	problems = append(problems, c.timing().Problems()...)
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"DrainTimeout", c.DrainTimeout}, {"Cooldown", c.Cooldown}, {"RestartDelay", c.RestartDelay}, {"MaxTerm", c.MaxTerm}, {"WarmTimeout", c.WarmTimeout}} {
		if f.value > MaxLease {
			problems = append(problems, setting.Errorf(f.name, " is %v: give at most %v", f.value, MaxLease))
		}
	}
	if err := c.ProbeSettings.Validate(); err != nil {
		problems = append(problems, setting.Errorf("ProbeSettings", ": %w", err))
	}
	if err := c.WorkProbeSettings.Validate(); err != nil {
		problems = append(problems, setting.Errorf("WorkProbeSettings", ": %w", err))
	}
	return configError("config: ", problems...)
}

func checkAdvertise(address string) error {
	if address == "" {
		return nil
	}
	return protocol.CheckWord("Advertise", address, protocol.MaxAdvertise, "")
}

// Succession is who leads after whom. The lock alone decides who leads; a
// Succession only decides for whom the others wait, and who yields. All
// candidates of an election should use the same. A preferred candidate that is dead or
// cut off delays an election by a quarter of a lease at most. Except for SuccessionRace it is
// meant for some dozens of candidates: each keeps track of all others.
type Succession string

// The successions.
const (
	// SuccessionRace: who comes first leads.
	SuccessionRace Succession = ""
	// SuccessionPriority: the healthy candidate with the highest Config.Priority leads; of
	// equals the one with the newer Config.Version, and then the one that has run longest (the bully algorithm's outcome). A
	// leader hands over to a higher one that has been healthy for a lease.
	SuccessionPriority Succession = "priority"
	// SuccessionSeniority: the healthy candidate with the newest Config.Version leads next; of
	// equals the one that has run longest.
	SuccessionSeniority Succession = "seniority"
	// SuccessionRotation: the healthy candidate with the next id in alphabetical order leads
	// next, after the last one the first (a ring). With Config.MaxTerm
	// the leadership walks round.
	SuccessionRotation Succession = "rotation"
)

func (s Succession) known() bool {
	return slices.Contains([]Succession{SuccessionRace, SuccessionPriority, SuccessionSeniority, SuccessionRotation}, s)
}

// order is the Succession as the candidates apply it to each other.
func (s Succession) order() peers.Order {
	switch s {
	case SuccessionPriority:
		return peers.ByPriority
	case SuccessionSeniority:
		return peers.BySeniority
	case SuccessionRotation:
		return peers.ByRotation
	default:
		return peers.Race
	}
}
