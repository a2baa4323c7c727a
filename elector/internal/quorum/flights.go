package quorum

import (
	"sync"
	"time"
)

// flights counts the requests under way. Unlike a sync.WaitGroup, it can be waited
// for with a time-out, and continues counting meanwhile.
type flights struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n becomes 0; nil unless a goroutine waits for that
}

func (f *flights) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
}

func (f *flights) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 && f.zero != nil {
		close(f.zero)
		f.zero = nil
	}
}

// Go runs fn on a goroutine that is counted.
func (f *flights) Go(fn func()) {
	f.begin()
	go func() {
		defer f.end()
		fn()
	}()
}

// wait blocks until nothing is under way, for at most d.
func (f *flights) wait(d time.Duration) {
	f.mu.Lock()
	if f.n == 0 {
		f.mu.Unlock()
		return
	}
	if f.zero == nil {
		f.zero = make(chan struct{})
	}
	zero := f.zero
	f.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-zero:
	case <-timer.C:
	}
}
