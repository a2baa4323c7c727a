package peers

import "sync"

// turns runs a function whenever there is something to do, never twice at a time, and on a
// goroutine only while there is: of ten thousand elections in a process nearly all wait.
type turns struct {
	mu      sync.Mutex // of all below
	take    func()     // nil before begin and after end
	due     bool       // there is something to do
	running bool       // a goroutine is at it
	idle    chan struct{}
}

// begin lets turns be taken, and the first one at once.
func (t *turns) begin(take func()) {
	t.mu.Lock()
	t.take = take
	t.mu.Unlock()
	t.wake()
}

// wake has a turn taken, after the one that is under way. It never blocks.
func (t *turns) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due = true
	if t.take != nil && !t.running {
		t.running = true
		go t.run()
	}
}

func (t *turns) run() {
	for take := t.next(); take != nil; take = t.next() {
		take()
	}
}

func (t *turns) next() (take func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.due && t.take != nil {
		t.due = false
		return t.take
	}
	t.running = false
	if t.idle != nil {
		close(t.idle)
	}
	return nil
}

// end waits for the turn that is under way: none follows.
func (t *turns) end() {
	t.mu.Lock()
	t.take = nil
	var idle chan struct{}
	if t.running {
		idle = make(chan struct{})
		t.idle = idle
	}
	t.mu.Unlock()
	if idle != nil {
		<-idle
	}
}
