//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestChaos lets a seeded schedule of faults loose on real processes, and proves
// afterwards what the journal tells. CHAOSTIME and CHAOSSEED come from make; the
// schedule is repeated by its seed, the timing of the machine is not.
func TestChaos(t *testing.T) {
	lasts, seed := chaosTime(t), chaosSeed(t)
	t.Logf("seed %d: make chaos CHAOSTIME=%v CHAOSSEED=%d", seed, lasts, seed)
	s := newStage(t, 3, 2)
	for _, c := range s.cands {
		c.start()
	}
	ctx, stop := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	readers.Go(func() { s.readRegister(ctx) })
	readers.Go(func() { s.watch(ctx) })
	d := &director{stage: s, rnd: rand.New(rand.NewPCG(seed, 0)), busy: map[string]bool{}}
	d.play(lasts)
	d.finale()
	stop()
	readers.Wait()

	r := s.check()
	t.Log(r)
	if file := os.Getenv("CHAOSREPORT"); file != "" {
		r.write(t, file, lasts, seed)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	for _, e := range r.Excused {
		t.Logf("forgiven: %s", e)
	}
	if lasts >= worthTerms && r.Terms < minTerms {
		t.Errorf("only %d terms: that proves little", r.Terms)
	}
	if keep := os.Getenv("CHAOSJOURNAL"); keep != "" && t.Failed() {
		b, _ := os.ReadFile(s.file)
		_ = os.WriteFile(keep, b, 0o600)
	}
}

// A run of worthTerms goes on until there were minTerms, on a machine that is slow to elect.
const (
	worthTerms = 10 * time.Second
	minTerms   = 3
)

// director breaks things and mends them. What is broken is not broken again
// before it was mended.
type director struct {
	*stage
	rnd *rand.Rand // of the goroutine of play only

	wg   sync.WaitGroup
	mu   sync.Mutex
	busy map[string]bool
}

// between is a random duration.
func (d *director) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.rnd.Int64N(int64(most-least)))
}

// play breaks one thing after the other. Now and then it waits until all is well,
// and goes on a little later, so that also quiet times are proved.
func (d *director) play(lasts time.Duration) {
	end := time.Now().Add(lasts)
	few := func() bool {
		return lasts >= worthTerms && time.Now().Before(end.Add(maxWait)) && d.begun() < minTerms
	}
	for act := 1; time.Now().Before(end) || few(); act++ {
		d.act()
		time.Sleep(d.between(lease/10, 6*lease/10))
		if act%25 == 0 {
			d.wg.Wait()
			time.Sleep(2 * lease)
		}
	}
	d.wg.Wait()
}

// finale wants a leader when all is mended, and ends all candidates well.
func (d *director) finale() {
	limit := time.Now().Add(maxWait)
	for d.leader(maxWait) == nil {
		if time.Now().After(limit) {
			d.t.Error("no candidate leads after all was healed")
			break
		}
		time.Sleep(lease / 20)
	}
	for _, c := range d.cands {
		d.journal.Write(Record{Kind: Fault, Target: "cand:" + c.id})
		c.signal(syscall.SIGTERM)
		if !c.awaitEnd(maxWait) {
			d.t.Errorf("%s did not end by SIGTERM", c.id)
		}
	}
}

// act breaks one thing, for a while. All that is random is drawn here, in one
// order, whatever the machine does.
func (d *director) act() {
	c, n := d.cands[d.rnd.IntN(len(d.cands))], d.rnd.IntN(len(d.nodes))
	atLeader, what := d.rnd.IntN(2) == 0, d.rnd.IntN(100)
	short, long := d.between(lease/20, lease), d.between(lease/4, 3*lease)
	delay := d.between(time.Millisecond, lease/16)
	if atLeader {
		if l := d.leader(lease / 4); l != nil {
			c = l
		}
	}
	switch {
	case what < 12:
		d.on("kills of a candidate", short, func() { c.signal(syscall.SIGKILL); c.awaitEnd(time.Minute) }, c.start, "cand:"+c.id)
	case what < 26:
		d.on("pauses of a candidate", long, func() { c.signal(syscall.SIGSTOP) }, func() { c.signal(syscall.SIGCONT) }, "cand:"+c.id)
	case what < 38:
		d.on("shutdowns of a candidate", short, func() { c.signal(syscall.SIGTERM); c.awaitEnd(10 * time.Second) }, c.start, "cand:"+c.id)
	case what < 48:
		d.on("kills of a node", short, d.nodes[n].Kill, func() { d.nodes[n].Restart(d.t) }, node(n))
	case what < 58:
		d.on("pauses of a node", long, func() { d.nodes[n].Hang(d.t) }, func() { d.nodes[n].Wake(d.t) }, node(n))
	case what < 62:
		d.wipe(n)
	case what < 72:
		d.weather("cut links", c, long, Weather{Cut: true}, n)
	case what < 80:
		d.weather("black holes", c, long, Weather{HoleUp: true, HoleDown: true}, n)
	case what < 85:
		d.weather("one-way black holes", c, long, Weather{HoleUp: true}, n)
	case what < 90:
		d.weather("one-way black holes", c, long, Weather{HoleDown: true}, n)
	case what < 94:
		d.weather("slow links", c, long, Weather{Delay: delay}, n)
	default:
		d.weather("partitions of a candidate", c, long, Weather{HoleUp: true, HoleDown: true}, 0, 1, 2)
	}
}

// begun is how many terms have begun.
func (d *director) begun() int {
	tokens := map[uint64]bool{}
	for _, r := range d.readJournal() {
		if r.Kind == Valid {
			tokens[r.Token] = true
		}
	}
	return len(tokens)
}

func node(n int) string { return "node:" + strconv.Itoa(n) }

// on breaks targets now and mends them later, unless one of them is broken.
func (d *director) on(what string, lasts time.Duration, spoil, repair func(), targets ...string) {
	if !d.take(targets) {
		return
	}
	for _, target := range targets {
		d.journal.Write(Record{Kind: Fault, Target: target})
	}
	d.journal.Write(Record{Kind: Act, Target: targets[0], Result: what})
	d.wg.Go(func() {
		spoil()
		time.Sleep(lasts)
		repair()
		for _, target := range targets {
			d.journal.Write(Record{Kind: Heal, Target: target})
		}
		d.give(targets)
	})
}

func (d *director) take(targets []string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, target := range targets {
		if d.busy[target] {
			return false
		}
	}
	for _, target := range targets {
		d.busy[target] = true
	}
	return true
}

func (d *director) give(targets []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, target := range targets {
		delete(d.busy, target)
	}
}

// wipe kills a node that comes back empty. Only one of them at a time, and not
// before the others had time to learn again: a majority that keeps its data is
// what the guarantee is about.
func (d *director) wipe(n int) {
	d.on("nodes that came back empty", lease/10, func() {
		d.nodes[n].Kill()
		d.nodes[n].Forget(d.t)
	}, func() {
		d.nodes[n].Restart(d.t)
		time.Sleep(4 * lease)
	}, node(n), "memory")
}

// weather changes the links of a candidate to some nodes.
func (d *director) weather(what string, c *candidate, lasts time.Duration, w Weather, nodes ...int) {
	set := func(w Weather) {
		for _, n := range nodes {
			c.proxies[n].Set(w)
		}
	}
	var targets []string
	for _, n := range nodes {
		targets = append(targets, fmt.Sprintf("link:%s:%d", c.id, n))
	}
	d.on(what, lasts, func() { set(w) }, func() { set(Weather{}) }, targets...)
}
