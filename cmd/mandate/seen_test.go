//go:build unix

package main

import (
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/rogpeppe/go-internal/testscript"
)

const (
	longElection = "an-election-with-a-name-of-more-than-22-characters"
	longID       = "a-candidate-with-an-id-of-more-than-28-characters"
)

// setupSeen gives each script a small Redis in this process, $SEEN, with three
// elections that took place: "seen", whose leader still leads, "gone", and one
// with long names.
func setupSeen(env *testscript.Env) error {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return err
	}
	env.Defer(m.Close)
	env.Setenv("SEEN", "redis://"+m.Addr())
	env.Setenv("GORACE", noExitPause)
	record := func(election, kind, who string, token int, second int, more string) error {
		_, err := m.XAdd("mandate:{"+election+"}:history", "*", []string{"event", fmt.Sprintf(
			`{"v":1,"kind":%q,"election":%q,"candidate":%q,"token":%d,"time":"2026-11-21T07:00:%02dZ"%s}`, kind, election, who, token, second, more)})
		return err
	}
	list := func(prefix string, names ...string) (err error) {
		for _, name := range names {
			_, zerr := m.ZAdd(prefix+":elections", 7, name)
			err = errors.Join(err, zerr)
		}
		return err
	}
	for _, err := range []error{
		record("seen", "elected", "a", 10, 0, ""),
		record("seen", "released", "a", 10, 30, `,"reason":"unhealthy","detail":"poll: no progress for 5s"`),
		record("seen", "elected", "b", 20, 31, ""), // it reports nothing more
		record("seen", "elected", "c", 30, 45, ""),
		record("seen", "elected", "forger", 99, 50, ""),
		m.Set("mandate:{seen}:fence", "30"),
		m.Set("mandate:{seen}:lock", "c/INCARNATION/1 n=1 lease=10000 since=1795244445000 token=30"),
		record(longElection, "elected", longID, 5, 0, ""),
		m.Set("mandate:{"+longElection+"}:lock", longID+"/INCARNATION/1 n=1 lease=10000 token=5"),
		m.Set("mandate:{"+longElection+"}:fence", "5"),
		m.Set("mandate:{gone}:fence", "7"),
		list("mandate", "seen", longElection, "gone"),
		list("other", "elsewhere"),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}
