//go:build unix

package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/examples/internal/children"
)

var names = []string{"a", "b", "c"}

// stage is three schedulers.
type stage struct {
	t *testing.T
	*children.Crew
}

func (s stage) start(name string) { must(s.t, s.Start(name, "schedule", "--id", name)) }

// lines returns what the logs of all hold for an expression.
func (s stage) lines(expr string) (all [][]string) {
	for _, name := range names {
		log, err := os.ReadFile(filepath.Join(s.Dir, name+".log"))
		must(s.t, err)
		all = append(all, regexp.MustCompile(expr).FindAllStringSubmatch(string(log), -1)...)
	}
	return all
}

// ran returns how often each tick of each job ran.
func (s stage) ran() map[tick]int {
	all := map[tick]int{}
	for _, m := range s.lines(`msg=running .*job=(\S+) tick=(\d+)`) {
		at, _ := strconv.Atoi(m[2])
		all[tick{m[1], at}]++
	}
	return all
}

// missed returns the ticks that the logs name: nobody ran them, or a leader died while it did.
func (s stage) missed() map[tick]bool {
	all := map[tick]bool{}
	for _, m := range s.lines(`msg="(?:ticks were not run|an earlier term reported no end of a run)" .*job=(\S+) (?:first|tick)=(\S+)(?: last=(\S+))?`) {
		first, _ := time.Parse(time.RFC3339, m[2])
		last, _ := time.Parse(time.RFC3339, cmp.Or(m[3], m[2]))
		for at := first.Unix(); at <= last.Unix(); at++ {
			all[tick{m[1], int(at)}] = true
		}
	}
	return all
}

type tick struct {
	job string
	at  int
}

// leader returns the name of the one that has run a job last.
func (s stage) leader() string {
	var newest, leader string
	for _, m := range s.lines(`time=(\S+) .*msg=running .*by=(\S+)`) {
		if m[1] > newest {
			newest, leader = m[1], m[2]
		}
	}
	return leader
}

// No tick runs twice, whether the leader is stopped, killed or suspended around a tick; and the logs name each that did
// not run. SCHEDULER_CHANGES=20 makes more of it.
func TestNoTickRunsTwiceReal(t *testing.T) {
	t.Parallel()
	const jobs = 25
	changes, _ := strconv.Atoi(cmp.Or(os.Getenv("SCHEDULER_CHANGES"), "4"))
	server := servertest.Redis(t)
	s := stage{t, children.New(io.Discard, t.TempDir(), "--redis", server.URL(), "--lease", "1s", "--jobs", strconv.Itoa(jobs))}
	defer s.Kill()
	for _, name := range names {
		s.start(name)
	}
	servertest.Eventually(t, time.Minute, "one runs jobs", func() bool { return s.leader() != "" })
	for i := range changes {
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(2*time.Second + time.Duration(i%5-2)*100*time.Millisecond)))
		switch leader := s.leader(); i % 4 {
		case 0, 2:
			if err := s.End(leader, syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			s.start(leader)
		case 1:
			_ = s.End(leader, syscall.SIGKILL)
			s.start(leader)
		case 3:
			_ = s.Signal(leader, syscall.SIGSTOP)
			time.Sleep(2 * time.Second)
			_ = s.Signal(leader, syscall.SIGCONT)
		}
	}
	time.Sleep(3 * time.Second)
	if err := s.EndAll(); err != nil {
		t.Error(err)
	}
	ran, missed := s.ran(), s.missed()
	first, last := math.MaxInt, 0
	for k, n := range ran {
		first, last = min(first, k.at), max(last, k.at)
		if n > 1 {
			t.Errorf("%v ran %d times", k, n)
		}
	}
	lost := 0
	for job := range jobs {
		for at := first; at <= last; at++ {
			if k := (tick{fmt.Sprint("job-", job), at}); ran[k] == 0 && !missed[k] {
				lost++
			}
		}
	}
	due := jobs * (last - first + 1)
	t.Logf("of %d ticks %d ran, %d are named as missed, %d are lost; %d changes of the leader", due, len(ran), due-len(ran)-lost, lost, changes)
	if lost > 0 {
		t.Errorf("%d ticks are lost: nobody ran them, and no log names them", lost)
	}
	if len(ran) < due/2 {
		t.Errorf("%d of %d ticks ran", len(ran), due)
	}
}
