package electorhttp_test

import (
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// A process is killed and starts again under its fixed id: its former life holds
// the lock, and the new one must say so instead of naming nobody.
func TestLeaderNamesAnEarlierLifeOfTheSameID(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a, _ := s.start("a", electorhttp.Config{})
		until(t, "a leads", 2*lease, a.IsLeader)
		term := a.Term()
		s.redis.CutOff("a") // dies without a word
		again, err := elector.New(s.redis.Quorum("a again"), elector.Config{
			Election: "e", ID: "a", Advertise: "http://a:81", Lease: lease, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		h, err := electorhttp.New(again, electorhttp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = h.Run(t.Context()) })
		t.Cleanup(wg.Wait)
		time.Sleep(time.Second)
		code, l := leadership(t, h)
		if code != http.StatusServiceUnavailable || l.Leading || l.Leader != "a" || l.Address != "http://a:80" || l.Token != term.Token() || l.Candidate != "a" {
			t.Errorf("while the former life holds the lock: %d %+v", code, l)
		}
		time.Sleep(lease)
		if code, l = leadership(t, h); code != http.StatusServiceUnavailable || l.Leader != "" {
			t.Errorf("when its lease is over: %d %+v", code, l)
		}
	})
}

// A leader that stops holds its lock until its work has ended, and names nobody meanwhile,
// itself least of all: a router would send it requests that it no longer works on.
func TestLeaderThatStopsNamesNoLeader(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		e, h := s.start("a", electorhttp.Config{})
		until(t, "a leads", 2*lease, e.IsLeader)
		time.Sleep(time.Second)
		if code, l := leadership(t, h); code != http.StatusOK || l.Leader != "a" || l.ValidFor == 0 { // a promise: the work lasts until it lapses
			t.Fatalf("%d %+v", code, l)
		}
		term := e.Term()
		resigned := make(chan error, 1)
		go func() { resigned <- e.Resign(t.Context()) }() // returns when the work has ended
		<-term.Done()
		time.Sleep(time.Millisecond)
		st, err := e.Election().Status(t.Context())
		if err != nil || st.Leader == nil || st.Leader.Token != term.Token() {
			t.Fatalf("the lock is gone: %+v, %v", st, err)
		}
		if code, l := leadership(t, h); code != http.StatusServiceUnavailable || l.Leading || l.Leader != "" || l.Address != "" || l.Token != 0 {
			t.Errorf("%d %+v", code, l)
		}
		if err := <-resigned; err != nil {
			t.Error(err)
		}
	})
}

// Clients are sent to the address in /leader: once the leader has another one, each
// candidate must name it.
func TestLeaderNamesANewAddress(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a, ha := s.start("a", electorhttp.Config{})
		until(t, "a leads", 3*lease, a.IsLeader)
		_, hb := s.start("b", electorhttp.Config{})
		address := func(h http.Handler) string { return ask(h, "GET", "/leader").Header().Get("Mandate-Address") }
		until(t, "b knows a", lease, func() bool { return address(hb) == "http://a:80" })
		if err := a.SetAdvertise("http://a:8080"); err != nil {
			t.Fatal(err)
		}
		if got := address(ha); got != "http://a:8080" {
			t.Errorf("a names itself at %q", got)
		}
		until(t, "b names the new address", lease/4+time.Second, func() bool { return address(hb) == "http://a:8080" })
	})
}
