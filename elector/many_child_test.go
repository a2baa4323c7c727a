package elector_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// manyEnv makes the test binary a process that is a candidate in many elections; see TestMain.
// It holds a manySettings. The process obeys the commands on its standard input, and answers
// each with a manyState.
const manyEnv = "MANDATE_TEST_MANY"

// manyCooldown is for how long a leader that has resigned leaves the election to the others.
const manyCooldown = 500 * time.Millisecond

// manyProbed is the election whose work has a probe.
const manyProbed = 1

type manySettings struct {
	ID        string
	URLs      []string
	Elections int
	Lease     time.Duration
}

// manyState is what the process measures of itself.
type manyState struct {
	Leads      int           // elections
	Began      int           // terms so far
	Ended      int           // the same
	FirstBegan int64         // when the work of the first election began last, in Unix nanoseconds
	AllSince   int64         // when the number of led elections became that of all
	CPU        time.Duration // user and system
	Goroutines int
	Heap       int64 // after garbage collections
	Stacks     int64 // the same
	Resigned   int64 // by "resign": when it was called
}

// many is the process.
type many struct {
	manySettings

	q        *elector.Quorum
	electors []*elector.Elector
	leads    atomic.Int64
	began    atomic.Int64
	ended    atomic.Int64
	first    atomic.Int64
	all      atomic.Int64
	hung     atomic.Bool // the probe of the work of one election
}

func manyMain() {
	logging.Disable()
	m := &many{}
	must(json.Unmarshal([]byte(os.Getenv(manyEnv)), &m.manySettings))
	q, err := elector.Open(m.URLs...)
	must(err)
	m.q = q
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var running sync.WaitGroup
	m.answer(0, m.state(true)) // what a process has without elections
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		resigned := int64(0)
		switch in.Text() {
		case "start":
			m.start(ctx, &running)
		case "resign":
			resigned = time.Now().UnixNano()
			_ = m.electors[0].Resign(ctx) // a machine that is too busy to release is measured, too
		case "hang":
			m.hung.Store(true)
		case "stop":
			stop()
			running.Wait()
			must(q.Close())
		}
		m.answer(resigned, m.state(in.Text() == "measure"))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (m *many) start(ctx context.Context, running *sync.WaitGroup) {
	for i := range m.Elections {
		cfg := elector.Config{
			Election: fmt.Sprintf("tenant-%05d", i), ID: m.ID, Lease: m.Lease, Cooldown: manyCooldown,
			Logger: slog.New(slog.DiscardHandler),
		}
		if i == manyProbed {
			cfg.WorkProbe = health.Func(func(context.Context) error {
				for m.hung.Load() {
					time.Sleep(10 * time.Millisecond)
				}
				return nil
			})
			cfg.WorkProbeSettings = health.Settings{Interval: m.Lease / 10, Timeout: m.Lease / 10}
		}
		e, err := elector.New(m.q, cfg)
		must(err)
		m.electors = append(m.electors, e)
		running.Go(func() {
			must(e.Run(ctx, func(ctx context.Context, _ *elector.Term) error {
				m.begin(i)
				<-ctx.Done()
				m.leads.Add(-1)
				m.ended.Add(1)
				return nil
			}))
		})
	}
}

func (m *many) begin(i int) {
	now := time.Now().UnixNano()
	if i == 0 {
		m.first.Store(now)
	}
	m.began.Add(1)
	if m.leads.Add(1) == int64(m.Elections) {
		m.all.Store(now)
	}
}

func (m *many) state(measure bool) manyState {
	st := manyState{
		Leads: int(m.leads.Load()), Began: int(m.began.Load()), Ended: int(m.ended.Load()), FirstBegan: m.first.Load(), AllSince: m.all.Load(),
	}
	var use syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	st.CPU = time.Duration(use.Utime.Nano() + use.Stime.Nano())
	if measure {
		runtime.GC()
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		st.Heap, st.Stacks, st.Goroutines = int64(mem.HeapAlloc), int64(mem.StackInuse), runtime.NumGoroutine()
	}
	return st
}

func (*many) answer(resigned int64, st manyState) {
	st.Resigned = resigned
	line, err := json.Marshal(st)
	must(err)
	fmt.Println(strings.TrimSpace(string(line)))
}
