package quorum

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// BenchmarkRenewals: what it costs a process, and one node, to renew 1,000 leases once, where
// nothing has changed. The goroutines and clocks of their state machines are not in it.
func BenchmarkRenewals(b *testing.B) {
	s := servertest.Redis(b)
	ns, err := Open([]redis.UniversalClient{s.Client(b)})
	if err != nil {
		b.Fatal(err)
	}
	defer ns.Close()
	const lease = time.Minute
	var voters [1000]*Voter
	var tokens [len(voters)]uint64
	for i := range voters {
		voters[i] = NewVoter(ns, VoterConfig{
			Keys: protocol.KeysOf("mandate", fmt.Sprint("orders-", i)), Candidate: "a", Incarnation: fmt.Sprint("inc", i),
			Advertise: func() string { return "" }, Lease: lease, CallTimeout: 10 * time.Second,
		})
		for range 20 { // a node grants nothing at first
			var t Tally
			if tokens[i], t = voters[i].Claim(b.Context(), 1, nil); tokens[i] > 0 {
				break
			}
			tokens[i], t = voters[i].Claim(b.Context(), 1, []string{t.Answers[0].Note})
			if tokens[i] > 0 {
				break
			}
			b.Fatalf("%+v", t.Answers)
		}
	}
	b.ReportAllocs()
	began := cpuTime(b)
	for b.Loop() {
		var all sync.WaitGroup
		all.Add(len(voters))
		for i, v := range voters {
			v.StartRenewal(lease/2, tokens[i], protocol.Heir{}, func() bool { return true }, func(t Tally) {
				if !t.Majority(protocol.Renewed) {
					b.Errorf("%+v", t.Answers)
				}
				all.Done()
			})
		}
		all.Wait()
	}
	b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N*len(voters)), "cpu-ns/renewal")
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
