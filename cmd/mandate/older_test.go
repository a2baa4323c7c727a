package main

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// An operator sees why an older version does not lead, and lets it.
func TestOperatorsLetAnOlderVersionLead(t *testing.T) {
	t.Setenv("MANDATE_BY", "ann")
	url := "redis://" + miniredis.RunT(t).Addr()
	s := shell{t, url}
	guarded := func(version string) func(*elector.Config) {
		return func(c *elector.Config) { c.Version, c.NoDowngrade = version, true }
	}
	a, stop := campaign(t, url, "e", "worker-a", guarded("v2.0.0"))
	servertest.Eventually(t, time.Minute, "worker-a leads", a.IsLeader)
	b, _ := campaign(t, url, "e", "worker-b", guarded("v1.4.2"))
	servertest.Eventually(t, time.Minute, "worker-b knows that it is older", func() bool {
		roll, err := b.Election().Candidates(t.Context())
		return err == nil && len(roll) == 2 && roll[1].Outdated != ""
	})
	const why = "v2.0.0 has led, this candidate is v1.4.2: refusing to lead"
	s.shows(0, "status e", "version v2.0.0", "problem 1 of 2 candidates could lead: worker-b: "+why, "candidates 1/2 able")
	s.shows(0, "candidates e", "worker-b", why)
	s.shows(exitRefused, "transfer e --to worker-b --yes", why)
	s.shows(exitWarnings, "doctor e", "1 of 2 candidates could lead: worker-b: "+why)

	stop()
	s.shows(exitNoLeader, "status e", "next mandate allow-older e")
	s.shows(exitFailures, "doctor e", "next mandate allow-older e", "0 of 1 candidates could lead: worker-b: "+why)
	s.shows(exitUsage, "allow-older e latest", "VERSION is \"latest\": give a semantic version")
	s.shows(0, "allow-older e v1.4.3 --json", `"election": "e", "highest": "v2.0.0", "allowed": "v1.4.3", "by": "ann"`)
	s.shows(exitNoLeader, "status e", "version v2.0.0; older ones may lead again from v1.4.3 on (by ann)")
	s.shows(exitFailures, "doctor e", "older versions older than v2.0.0 may lead again from v1.4.3 on (by ann)", "mandate refuse-older e")
	s.shows(0, "ls", "candidates could lead")
	s.shows(0, "refuse-older e", "e: no version below v2.0.0 leads")
	s.shows(0, "allow-older e --reason broken", "e: every version may lead again, until one that is not v2.0.0 has led")
	servertest.Eventually(t, time.Minute, "worker-b leads", b.IsLeader)
	s.shows(0, "status e", "version v1.4.2")
	s.shows(0, "history e", "older versions than v2.0.0 allowed from v1.4.3 on by ann", "older versions than v2.0.0 refused again by ann", "older versions than v2.0.0 allowed by ann: broken")

	_, errs := s.run(exitUsage, "run", "--election", "e", "--no-downgrade", "--work-version", "main", "--", "true")
	if !strings.Contains(errs, `--no-downgrade with the version "main", which cannot be compared`) {
		t.Error(errs)
	}
}
