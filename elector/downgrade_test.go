package elector_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

const versionKey = "mandate:{orders}:version"

func guarded(version string) func(*elector.Config) {
	return func(cfg *elector.Config) { cfg.Version, cfg.NoDowngrade = version, true }
}

// Once a newer version has led an older one follows, and says so to operators and in its log; whoever is as new leads.
func TestOlderVersionRefusesToLead(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		op := electionOf(c.Quorum("operator"), "orders")
		old := c.Start("old", guarded("v1.9.0"))
		old.Elected(3 * shortLease)
		fresh := c.Start("new", guarded("v1.10.0"))
		time.Sleep(shortLease)
		old.Shutdown()
		fresh.Elected(100 * time.Millisecond)

		back := c.Start("back", guarded("v1.9.9"))
		time.Sleep(shortLease)
		if err := back.Check(); err != nil {
			t.Errorf("a replica that is older is not ready: %v", err)
		}
		if _, err := op.Transfer(t.Context(), "back"); !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "v1.10.0 has led, this candidate is v1.9.9") {
			t.Errorf("%v", err)
		}
		fresh.Shutdown()
		back.Quiet(5 * shortLease)
		if n := len(back.Log.Lines("a newer version has led, refusing to lead", "v1.9.9", "v1.10.0")); n != 1 {
			t.Errorf("%d lines\n%s", n, back.Log.Lines())
		}
		all, err := op.Candidates(t.Context())
		if err != nil || len(all) != 1 || all[0].Outdated != "v1.10.0" || all[0].Able() || !all[0].Unable {
			t.Errorf("%+v, %v", all, err)
		}
		if st, err := op.Status(t.Context()); err != nil || st.Version != "v1.10.0" || st.AllowOlder != "" {
			t.Errorf("%+v, %v", st, err)
		}
		// A pre-release of the highest is older, the same one is not, with other build metadata too.
		pre := c.Start("pre", guarded("v1.10.0-rc.1"))
		pre.Quiet(3 * shortLease)
		same := c.Start("same", guarded("1.10.0+build.7"))
		same.Elected(3 * shortLease)
	})
}

// The claim itself keeps the version: a term that is over before its first renewal has led, too.
func TestShortTermsVersionIsRemembered(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		c.Seed()
		fresh := c.Start("new", guarded("v2.0.0"))
		fresh.Elected(2 * shortLease)
		fresh.Shutdown()
		old := c.Start("old", guarded("v1.0.0"))
		old.Quiet(3 * shortLease)
	})
}

// A candidate without a semantic version, or that has not opted in, is not kept from leading, and
// leaves nothing behind.
func TestOlderVersionWithoutNoDowngradeLeads(t *testing.T) {
	for name, change := range map[string]func(*elector.Config){
		"not opted in":     func(cfg *elector.Config) { cfg.Version = "v1.0.0" },
		"no version":       func(cfg *elector.Config) { cfg.NoDowngrade = true },
		"no semantic one":  guarded("main-d6eeb56"),
		"newer, not asked": func(cfg *elector.Config) { cfg.Version = "v3.0.0" },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.Start("a", guarded("v2.0.0"))
				a.Elected(3 * shortLease)
				b := c.Start("b", change)
				time.Sleep(shortLease)
				a.Shutdown()
				b.Elected(time.Second)
				time.Sleep(shortLease)
				for _, n := range c.Nodes {
					if got, _ := n.Server().Get(versionKey); got != "v2.0.0" {
						t.Errorf("%q", got)
					}
				}
			})
		})
	}
}

// A candidate that starts after the versions have changed without it claims twice at most, and once as soon as it
// knows: no trip more where leaders change.
func TestVersionCostsNoRoundTrip(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		a := c.Start("a", guarded("v1.0.0"))
		a.Elected(3 * shortLease)
		b := c.Start("b", guarded("v2.0.0"))
		time.Sleep(2 * shortLease)
		claimsOf(c, "b")
		a.Shutdown()
		b.Elected(100 * time.Millisecond)
		if n := claimsOf(c, "b"); n > 2*len(c.Nodes) { // one that came a little early is refused
			t.Errorf("%d claims on %d nodes", n, len(c.Nodes))
		}
		b.Shutdown()
		d := c.Start("d", guarded("v3.0.0"))
		d.Elected(100 * time.Millisecond)
	})
}

// A majority of the nodes decides: the version outlives the loss of one, and one alone keeps nobody from leading.
func TestMajorityKeepsTheHighestVersion(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a", guarded("v2.0.0"))
		a.Elected(3 * shortLease)
		time.Sleep(shortLease)
		c.Nodes[0].Server().FlushAll()
		time.Sleep(shortLease) // a renewal brings it back
		if got, _ := c.Nodes[0].Server().Get(versionKey); got != "v2.0.0" {
			t.Errorf("not brought back: %q", got)
		}
		c.Nodes[1].Set(down)
		a.Shutdown()
		old := c.Start("old", guarded("v1.0.0"))
		old.Quiet(5 * shortLease)
		c.Nodes[1].Heal()
		c.Nodes[1].Server().FlushAll()
		old.Quiet(5 * shortLease)
		old.Shutdown()

		_ = c.Nodes[0].Server().Set(versionKey, "v99.0.0") // forged, on one
		next := c.Start("next", guarded("v2.0.1"))
		next.Elected(5 * shortLease)
		time.Sleep(shortLease)
		if got, _ := c.Nodes[0].Server().Get(versionKey); got != "v2.0.1" {
			t.Errorf("a renewal leaves %q", got)
		}
	})
}

// What others have written where the version is kept costs no term and no election, and is reported.
func TestForgedVersionCostsNoTerm(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		a := c.Start("a", guarded("v2.0.0"))
		term := a.Elected(3 * shortLease)
		op := electionOf(c.Quorum("operator"), "orders")
		for _, forge := range []func(n *node){
			func(n *node) { _ = n.Server().Set(versionKey, "v99.0.0") },
			func(n *node) { _ = n.Server().Set(versionKey, strings.Repeat("9", 1<<20)) },
			func(n *node) { n.Server().Del(versionKey); _, _ = n.Server().Push(versionKey, "x") },
		} {
			for _, n := range c.Nodes {
				forge(n)
			}
			if st, err := op.Status(t.Context()); err != nil || st.Leader == nil {
				t.Errorf("%+v, %v", st, err)
			}
			time.Sleep(shortLease)
			if st, err := op.Status(t.Context()); err != nil || st.Version != "v2.0.0" || !term.Valid() {
				t.Errorf("%+v, %v: %v", st, err, term.Err())
			}
		}
		a.Shutdown()
		for _, n := range c.Nodes {
			_ = n.Server().Set(versionKey, "the latest")
		}
		b := c.Start("b", guarded("v1.0.0"))
		b.Elected(3 * shortLease)
		if n := len(b.Log.Lines("highest version is unreadable", "the latest")); n != 1 {
			t.Errorf("%d lines\n%s", n, b.Log.Lines())
		}
	})
}

// A claim that was lost has led nothing: a renewal of the winner takes its version back.
func TestLostClaimIsNotTheHighestVersion(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		a := c.Start("a", guarded("v1.0.0"))
		a.Elected(3 * shortLease)
		_ = c.Nodes[2].Server().Set(versionKey, "v2.0.0")
		time.Sleep(shortLease)
		if got, _ := c.Nodes[2].Server().Get(versionKey); got != "v1.0.0" {
			t.Errorf("%q is kept", got)
		}
	})
}

// An operator lets an older version lead: at once, on all, until it has led; and is on record for it.
func TestOperatorLetsAnOlderVersionLead(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		op := electionOf(c.Quorum("operator"), "orders").As("ada")
		if err := op.AllowOlder(t.Context(), elector.AnyVersion, ""); !errors.Is(err, elector.ErrRefused) {
			t.Errorf("%v", err)
		}
		if err := op.AllowOlder(t.Context(), "latest", ""); err == nil || errors.Is(err, elector.ErrRefused) {
			t.Errorf("%v", err)
		}
		a := c.Start("a", guarded("v2.0.0"))
		a.Elected(3 * shortLease)
		older, old := c.Start("older", guarded("v1.0.0")), c.Start("old", guarded("v1.4.0"))
		time.Sleep(shortLease)
		// While the newer one leads its renewals leave the permission alone, and it outlives another term of it.
		if err := op.AllowOlder(t.Context(), "v1.4.0", "2.0.0 loses orders"); err != nil {
			t.Fatal(err)
		}
		st, err := op.Status(t.Context())
		if err != nil || st.Version != "v2.0.0" || st.AllowOlder != "v1.4.0" || st.Allowed != "by ada: 2.0.0 loses orders" || st.AllowedSince.IsZero() {
			t.Errorf("%+v, %v", st, err)
		}
		time.Sleep(shortLease)
		a.Shutdown()
		old.Elected(time.Second)
		older.Quiet(2 * shortLease)
		if st, err := op.Status(t.Context()); err != nil || st.Version != "v1.4.0" || st.AllowOlder != "" {
			t.Errorf("%+v, %v", st, err)
		}
		old.Shutdown()
		older.Quiet(2 * shortLease)
		if err := op.AllowOlder(t.Context(), elector.AnyVersion, ""); err != nil {
			t.Fatal(err)
		}
		older.Elected(100 * time.Millisecond)
	})
}

// The permission outlasts another term of the version that it is about, and ends on request.
func TestAllowOlderEnds(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		op := electionOf(c.Quorum("operator"), "orders").As("ada")
		a := c.Start("a", guarded("v2.0.0"))
		a.Elected(3 * shortLease)
		if err := op.AllowOlder(t.Context(), "v1.0.0", ""); err != nil {
			t.Fatal(err)
		}
		b := c.Start("b", guarded("v2.0.0"))
		time.Sleep(shortLease)
		a.Shutdown()
		b.Elected(time.Second)
		if st, _ := op.Status(t.Context()); st.AllowOlder != "v1.0.0" {
			t.Errorf("%+v", st)
		}
		if err := op.RefuseOlder(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.Shutdown()
		old := c.Start("old", guarded("v1.0.0"))
		old.Quiet(3 * shortLease)
		tl, err := op.Timeline(t.Context(), 10, time.Time{})
		if err != nil || len(tl.Versions) != 2 || tl.Versions[0].By != "ada" || tl.Versions[0].Lowest != "" ||
			tl.Versions[1].Lowest != "v1.0.0" || tl.Versions[1].Highest != "v2.0.0" || tl.Versions[1].At.IsZero() {
			t.Errorf("%+v, %v", tl.Versions, err)
		}
	})
}

// claimsOf counts the claims that a candidate has sent.
func claimsOf(c *cluster, id string) (n int) {
	for _, node := range c.Nodes {
		for _, call := range node.Took() {
			if call.Script == "claim" && call.From(id) {
				n++
			}
		}
	}
	return n
}

// A leader keeps its term where only an older candidate, which refuses to lead after this term, has a
// higher priority. In the first moments the older one does not know that yet, and says that it could lead.
func TestPriorityYieldsToNoOlderVersion(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		op := electionOf(c.Quorum("operator"), "orders")
		with := func(version string, priority int) func(*elector.Config) {
			return func(cfg *elector.Config) {
				guarded(version)(cfg)
				cfg.Succession, cfg.Priority = elector.SuccessionPriority, priority
			}
		}
		high := c.Start("high", with("v1.0.0", 9))
		high.Elected(3 * shortLease)
		c.Start("second", with("v1.0.0", 8))
		low := c.Start("low", with("v2.0.0", 1))
		time.Sleep(3 * shortLease)
		if _, err := op.Transfer(t.Context(), "low"); err != nil {
			t.Fatal(err)
		}
		term := low.Elected(time.Second)
		time.Sleep(5 * shortLease)
		if !term.Valid() {
			t.Errorf("the newer one has stopped leading: %v", term.Err())
		}
		// An operator's permission holds while the newer one leads: now it yields.
		if err := op.AllowOlder(t.Context(), elector.AnyVersion, ""); err != nil {
			t.Fatal(err)
		}
		high.Elected(3 * shortLease)
	})
}

// An operator, or a leader that is drained, does not count on a candidate that is too old to lead next
// and does not know that yet, as when it has missed the messages: the election would have no leader.
func TestSuccessorThatIsTooOld(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		op := electionOf(c.Quorum("operator"), "orders")
		fresh := c.Start("new", guarded("v2.0.0"))
		term := fresh.Elected(3 * shortLease)
		c.Start("old", guarded("v1.0.0"))
		time.Sleep(shortLease)
		if err := op.AllowOlder(t.Context(), elector.AnyVersion, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if able, err := op.Successors(t.Context()); err != nil || len(able) != 1 || able[0].ID != "old" {
			t.Errorf("%+v, %v", able, err)
		}
		for _, n := range c.Nodes {
			_ = n.Server().Set(versionKey, "v2.0.0")
		}
		if all, err := op.Candidates(t.Context()); err != nil || len(all) != 2 || !all[1].Able() {
			t.Errorf("it knows already: %+v, %v", all, err)
		}
		const why = "v2.0.0 has led, this candidate is v1.0.0: refusing to lead"
		if able, err := op.Successors(t.Context()); !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), why) {
			t.Errorf("%+v, %v", able, err)
		}
		if _, err := op.Transfer(t.Context(), "old"); !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), why) {
			t.Error(err)
		}
		if !term.Valid() {
			t.Errorf("the leader has stepped down: %v", term.Err())
		}
	})
}
