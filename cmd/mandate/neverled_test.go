package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
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
	s.shows(0, "ls", "first-deploy vacant - - 0/1 -", "HTTP 503")
	s.shows(exitNoLeader, "status first-deploy", "problem 0 of 1 candidates could lead: worker-a: ", "HTTP 503")
	stop()
	s.shows(0, "ls", "no elections under the prefix mandate")
}

// With a node down, too, it is said why there is no history.
func TestHistoryOfAnElectionThatNeverHadALeader(t *testing.T) {
	gone := miniredis.RunT(t)
	urls := "redis://" + miniredis.RunT(t).Addr() + ",redis://" + miniredis.RunT(t).Addr() + ",redis://" + gone.Addr()
	s := shell{t, urls}
	broken := health.Func(func(context.Context) error { return errors.New("HTTP 503") })
	_, stop := campaign(t, urls, "first-deploy", "worker-a", func(cfg *elector.Config) { cfg.Probe = broken })
	defer stop()
	servertest.Eventually(t, time.Minute, "the candidate can be asked", func() bool {
		var out captured
		execute(t.Context(), append([]string{"ls"}, s.nodes()...), &out, &captured{})
		return strings.Contains(out.String(), "first-deploy")
	})
	const never = "no term of first-deploy is recorded: it has never had a leader"
	s.shows(exitNoLeader, "history first-deploy", never, "mandate status first-deploy")
	s.shows(exitNoLeader, "history first-deploy --since 1h", never)
	s.shows(exitNoLeader, "history nosuch", "no history of nosuch: is the name right?")
	gone.Close()
	s.shows(exitNoLeader, "history first-deploy", never)
}
