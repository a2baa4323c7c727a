package console

import "sync"

// viewers counts the viewers. mu guards the other fields.
type viewers struct {
	mu      sync.Mutex
	n, max  int
	changed chan struct{} // closed and replaced when the first viewer comes or the last one leaves
}

func newViewers(limit int) *viewers {
	return &viewers{max: limit, changed: make(chan struct{})}
}

// enter adds a viewer, or returns false if there are too many.
func (v *viewers) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.n >= v.max {
		return false
	}
	v.n++
	if v.n == 1 {
		v.wake()
	}
	return true
}

func (v *viewers) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.n--
	if v.n == 0 {
		v.wake()
	}
}

// The caller holds mu.
func (v *viewers) wake() {
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *viewers) there() (bool, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.n > 0, v.changed
}
