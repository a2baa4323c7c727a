package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest/servertest"
	"github.com/mandate-dev/mandate/health"
)

// Regression: the first deploy of a service whose probe fails was in no list, because only a
// leader or a pause left a key.
func TestElectionThatNeverHadALeaderIsListed(t *testing.T) {
	url := "redis://" + miniredis.RunT(t).Addr()
	s := shell{t, url}
	broken := health.Func(func(context.Context) error { return errors.New("HTTP 503") })
	_, stop := campaign(t, url, "first-deploy", "worker-a", func(cfg *elector.Config) { cfg.Probe = broken })
	servertest.Eventually(t, time.Minute, "the candidate can be asked, and is known to be unhealthy", func() bool {
		out, _ := s.run(0, "ls")
		return strings.Contains(out, "503")
	})
	s.shows(0, "ls", "first-deploy vacant - - 0/1 - NEVER LED: mandate candidates first-deploy", "HTTP 503")
	s.shows(0, "ls -o name", "first-deploy")
	s.shows(exitNoLeader, "status first-deploy", "problem no candidate can lead (worker-a: ", "HTTP 503", "next mandate candidates first-deploy")
	stop()
	s.shows(0, "ls", "no elections under the prefix mandate")
}
