package shard

import (
	"cmp"
	"context"
	"hash/fnv"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/setting"
	"github.com/mandate-dev/mandate/health"
)

// Work is what the owner of a shard does. Like elector.Work, it must return soon after ctx
// ends, and a panic in it ends the process. When it returns an error, or its probe fails, the
// shard is given to another member, and this member does not take it for a Config.Cooldown,
// which doubles with each consecutive failure, up to 16 times its length. When Work returns
// nil, the term ends, and the member runs it again after a tenth of the lease.
type Work func(ctx context.Context, term *Term) error

// Config describes one member of a group. The zero value of a field means its default.
type Config struct {
	// Group is the name that all members share. Required; no spaces, no braces, at most
	// 180 bytes, and not the name of an election.
	Group string
	// Shards is the number of shards, from 1 to 16,384, the same for all members. Required. While
	// members with another number are alive, a member is refused.
	Shards int
	// ID names this member. Default: host name, process id and a random part.
	ID string
	// Advertise is where this member can be reached, in any form without spaces, at most
	// 256 bytes. Owner returns it to other members.
	Advertise string
	// Version is the version of the program, for operators.
	Version string
	// Weight is how much this member should own relative to the others. Default 1; above 0.
	Weight float64

	// Lease is how long a shard is held without renewal, as elector.Config.Lease. The same
	// for all members. At least 500 ms. Default 10 s.
	Lease time.Duration
	// StopMargin is how long before the end of a shard's lease its work is cancelled. Default
	// a quarter of the lease.
	StopMargin time.Duration
	// DrainTimeout is how long Run keeps its shards after its context has ended, until other
	// members have taken them over, and how long the lease of a shard is kept while its work
	// stops. Default one lease; negative: none.
	DrainTimeout time.Duration
	// Cooldown is how long this member does not take a shard again after it has failed at it,
	// or after an operator has taken the shard from it. Default one lease.
	Cooldown time.Duration

	// Probe is checked at all times. A member that is not healthy owns nothing.
	// Default: always healthy.
	Probe         health.Probe
	ProbeSettings health.Settings
	// WorkProbe, if set, makes the probe of one shard's work. When that probe fails, only this
	// shard moves to another member. WorkProbe is called once per candidacy; nil: always healthy.
	WorkProbe         func(shard int) health.Probe
	WorkProbeSettings health.Settings
	// Logger gets one line per change. Default slog.Default().
	Logger *slog.Logger
}

// minLease is longer than the minimum for an election, because the assigner's lease and the
// time for which a member counts as alive are fractions of the lease.
const minLease = 500 * time.Millisecond

// moves is how many shards change their owner at one time, in the whole group. With more of them each shard is
// without an owner for longer, because their releases and claims wait for each other.
const moves = 8

func (c Config) withDefaults() Config {
	c.Lease = cmp.Or(c.Lease, 10*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, c.Lease)
	c.Cooldown = cmp.Or(c.Cooldown, c.Lease)
	c.Weight = cmp.Or(c.Weight, 1)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

func (c Config) validate() (problems []error) {
	add := func(err error) { problems = append(problems, err) }
	add(protocol.CheckGroup(c.Group))
	if c.Shards < 1 || c.Shards > group.MaxShards {
		add(setting.Errorf("Shards", " is %d: from 1 to %d, the same for all members", c.Shards, group.MaxShards))
	}
	if !(c.Weight > 0) || math.IsInf(c.Weight, 0) {
		add(setting.Errorf("Weight", " is %v: above 0 (a member that should own nothing need not run)", c.Weight))
	}
	if err := setting.CheckUnit("Lease", c.Lease); err != nil {
		add(err)
	} else if c.Lease < minLease {
		add(setting.Errorf("Lease", " is %v: at least %v", c.Lease, minLease))
	}
	if c.Cooldown < 0 {
		add(setting.Errorf("Cooldown", " is %v: not below zero, or a shard would return at once to where it failed", c.Cooldown))
	}
	return problems
}

// candidate returns the configuration of an election in which this member campaigns.
func (c Config) candidate(election string, lease time.Duration) elector.Config {
	return elector.Config{
		Election: election, ID: c.ID, Advertise: c.Advertise, Version: c.Version,
		Lease: lease, DrainTimeout: c.DrainTimeout, Cooldown: -1, Logger: c.Logger,
	}
}

// Times that follow from the lease. A member counts as dead after half a lease, so its shards
// are planned for others before their locks lapse, even if the assigner died with it.
func (c Config) beatEvery() time.Duration      { return c.Lease / 8 }
func (c Config) aliveFor() time.Duration       { return c.Lease / 2 }
func (c Config) assignerLease() time.Duration  { return (c.Lease / 3).Truncate(time.Millisecond) }
func (c Config) requestTimeout() time.Duration { return min(c.Lease/5, 2*time.Second) }

// settings are what all members of the group must agree on.
func (c Config) settings() group.Settings { return group.NewSettings(c.Shards, c.Lease) }

// ElectionOf returns the name of the election that decides who owns a shard of a group.
func ElectionOf(group string, shard int) string { return protocol.ElectionOfShard(group, shard) }

// ElectionOfAssigner returns the name of the election that elects a group's assigner.
func ElectionOfAssigner(group string) string { return protocol.ElectionOfAssigner(group) }

// OfElection returns the group and the shard whose election has that name (ElectionOf).
func OfElection(election string) (name string, shard int, is bool) { return protocol.ShardOf(election) }

// Of returns the shard to which a key belongs among the given number of shards: a hash (FNV-1a,
// 64 bits, its halves mixed) modulo that number. It is the same in every version.
func Of(key string, shards int) int {
	h := fnv.New64a()
	_, _ = io.WriteString(h, key)
	sum := h.Sum64()
	sum ^= sum >> 32 // FNV's low bits alone depend on the low bits of the key
	sum *= 0x9e3779b97f4a7c15
	sum ^= sum >> 32
	return int(sum % uint64(max(shards, 1)))
}

// Set is a set of shards in ascending order. Its String is short and readable: "0-3,7".
type Set = group.Set

// Split separates the names of elections, as elector.Quorum.Elections lists them, into those of
// groups' shards and assigners, and the others. others are in the order of the list. shards has, by
// group, the numbers of the listed shards in ascending order. A group may have no members any more:
// Read returns ErrNoGroup then.
func Split(elections []string) (others []string, shards map[string]Set) {
	shards = map[string]Set{}
	for _, name := range elections {
		if group, n, is := OfElection(name); is {
			shards[group] = append(shards[group], n)
		} else if group, is := strings.CutSuffix(name, ElectionOfAssigner("")); is && protocol.CheckGroup(group) == nil {
			shards[group] = append(shards[group], nil...) // also one without a shard
		} else {
			others = append(others, name)
		}
	}
	for _, all := range shards {
		slices.Sort(all)
	}
	return others, shards
}
