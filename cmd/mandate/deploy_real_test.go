//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// deployed is one process of a deploy.
type deployed struct {
	id  string
	cmd *exec.Cmd
}

// deploy starts one of a version, and waits until the others know of it.
func (c *crash) deploy(version, n int) deployed {
	c.t.Helper()
	r := deployed{id: fmt.Sprintf("v%d-%d", version, n)}
	r.cmd = c.start("run", "--log-level", "error", "--election", "e", "--id", r.id, "--lease", "5s", "--succession", "seniority",
		"--work-version", fmt.Sprintf("1.%d.0", version), "--", "sleep", "1000")
	if err := poll(func() error {
		all, err := c.election.Candidates(context.Background())
		if err != nil {
			return err
		}
		for _, candidate := range all {
			if candidate.ID == r.id {
				return nil
			}
		}
		return fmt.Errorf("%s is no candidate", r.id)
	}); err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *crash) shutDown(r deployed) {
	c.t.Helper()
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.ended[r.cmd]:
	case <-time.After(scriptTimeout):
		c.t.Fatalf("%s does not end", r.id)
	}
}

// ledIn waits for a leader of that version, and returns how many terms the history has that are newer than a token, and
// the newest.
func (c *crash) ledIn(version int, after uint64) (terms int, newest uint64) {
	c.t.Helper()
	if err := poll(func() error {
		cmd := exec.Command("mandate", "history", "e", "-n", "50", "--json")
		cmd.Env = append(os.Environ(), "MANDATE_REDIS="+c.urls)
		out, err := cmd.Output()
		if err != nil {
			return err
		}
		var history struct {
			Terms []struct {
				Candidate string `json:"candidate"`
				Token     uint64 `json:"token"`
				Current   bool   `json:"current"`
			} `json:"terms"`
		}
		if err := json.Unmarshal(out, &history); err != nil {
			return err
		}
		terms = 0
		for _, term := range history.Terms {
			if term.Token > after {
				terms++
			}
		}
		if terms == 0 || !strings.HasPrefix(history.Terms[0].Candidate, fmt.Sprintf("v%d-", version)) || !history.Terms[0].Current {
			return fmt.Errorf("no leader of version %d: %s", version, out)
		}
		newest = history.Terms[0].Token
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
	return terms, newest
}

// A rolling deploy of five replicas moves the leadership once, in whatever order the old ones are stopped.
// MANDATE_TEST_DEPLOYS is how many deploys there are; of a hundred one may take more moves.
func TestDeployMovesTheLeadershipOnceReal(t *testing.T) {
	c := newCrash(t)
	deploys := 10
	if s := os.Getenv("MANDATE_TEST_DEPLOYS"); s != "" {
		var err error
		if deploys, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	var running []deployed
	for n := range 5 {
		running = append(running, c.deploy(0, n))
	}
	_, newest := c.ledIn(0, 0)
	once, began := 0, time.Now()
	for version := 1; version <= deploys; version++ {
		rand.Shuffle(len(running), func(i, j int) { running[i], running[j] = running[j], running[i] })
		var fresh []deployed
		for n, old := range running {
			fresh = append(fresh, c.deploy(version, n))
			c.shutDown(old)
		}
		running = fresh
		var moves int
		if moves, newest = c.ledIn(version, newest); moves == 1 {
			once++
		} else {
			t.Logf("deploy %d moved the leadership %d times", version, moves)
		}
	}
	t.Logf("%d deploys, exactly one move in %d, %v", deploys, once, time.Since(began).Round(time.Millisecond))
	if once < deploys-(deploys+99)/100 {
		t.Errorf("only %d of %d deploys moved the leadership once", once, deploys)
	}
}
