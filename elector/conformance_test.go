package elector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// world is where the conformance suite runs: n nodes of some kind.
type world struct {
	n        int
	lease    time.Duration
	quorum   func(t testing.TB, name string) *elector.Quorum
	raw      []*redis.Client // as an operator's redis-cli
	election string
	exact    bool // time is virtual: what takes milliseconds takes milliseconds
}

func (w *world) config(cfg *elector.Config) { cfg.Election, cfg.Lease = w.election, w.lease }

func (w *world) make(t testing.TB, id string, change ...func(*elector.Config)) *candidate {
	t.Helper()
	return makeCandidate(t, w.quorum(t, id), id, append([]func(*elector.Config){w.config}, change...)...)
}

func (w *world) start(t testing.TB, id string, change ...func(*elector.Config)) *candidate {
	t.Helper()
	return w.make(t, id, change...).Begin(nil)
}

func (w *world) key(name string) string { return "mandate:{" + w.election + "}:" + name }

// locks is how many nodes hold the lock.
func (w *world) locks(t testing.TB) int {
	t.Helper()
	n := 0
	for _, r := range w.raw {
		k, err := r.Exists(t.Context(), w.key("lock")).Result()
		if err != nil {
			t.Fatal(err)
		}
		n += int(k)
	}
	return n
}

// unlocked wants the lock gone from all nodes: at most one patience after Run.
func (w *world) unlocked(t testing.TB) {
	t.Helper()
	within := w.lease / 4
	if !w.exact {
		within += 10 * time.Second // a busy machine
	}
	eventually(t, within, "the lock is gone from all nodes", func() bool { return w.locks(t) == 0 })
}

// first is how long a first election may take: nodes that never heard of the
// election don't vote for a lease unless all of them are seen to be new.
func (w *world) first() time.Duration { return 3 * w.lease }

// soon is far below what waiting for a lease's end takes.
func (w *world) soon() time.Duration { return w.lease / 2 }

var conformance = []struct {
	name string
	run  func(*testing.T, *world)
}{
	{"ElectedSecondWaitsResignHandsOver", conformHandOver},
	{"ShutdownReleases", conformShutdown},
	{"TokensIncreaseOverRestarts", conformTokens},
	{"WorkErrorEndsRun", conformWorkError},
	{"WorkDoneCampaignsAgain", conformWorkDone},
	{"ResignFromInsideTheWork", conformResignInside},
	{"CampaignAndResign", conformCampaign},
	{"CampaignEndsWithItsContext", conformCampaignContext},
	{"OneAtATime", conformErrRunning},
	{"ObserveFromOutside", conformObserve},
	{"ObserveSkipsForTheSlow", conformObserveSlow},
	{"LeaderAndStatus", conformLeader},
	{"CheckFitsReadiness", conformCheck},
	{"OperatorsReadKeysAndChannels", conformKeys},
	{"TwoElectionsOnOneQuorum", conformTwoElections},
}

func TestConformanceMiniredis(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			for _, tc := range conformance {
				t.Run(tc.name, func(t *testing.T) {
					bubble(t, n, func(t *testing.T, c *cluster) {
						w := &world{
							n: n, lease: shortLease, election: "orders", exact: true,
							quorum: func(_ testing.TB, name string) *elector.Quorum { return c.Quorum(name) },
						}
						for i := range n {
							r := c.Client("operator", i)
							t.Cleanup(func() { r.Close() })
							w.raw = append(w.raw, r)
						}
						tc.run(t, w)
					})
				})
			}
		})
	}
}

func TestConformanceReal(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			t.Parallel()
			servers := servertest.RedisN(t, n)
			var raw []*redis.Client
			for _, s := range servers {
				raw = append(raw, s.Client(t))
			}
			t.Run("suite", func(t *testing.T) { // awaits the parallel ones
				for _, tc := range conformance {
					t.Run(tc.name, func(t *testing.T) {
						t.Parallel()
						tc.run(t, &world{
							n: n, lease: 3 * time.Second, election: tc.name, raw: raw,
							quorum: func(t testing.TB, _ string) *elector.Quorum { return realQuorum(t, servers...) },
						})
					})
				}
			})
		})
	}
}
