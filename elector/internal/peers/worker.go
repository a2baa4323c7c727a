package peers

import "sync"

// worker runs a function whenever there is something to do, never twice at the same time. It has
// a goroutine only during a run: of ten thousand elections in a process nearly all are idle.
type worker struct {
	mu      sync.Mutex // of all below
	work    func()     // nil before begin and after end
	due     bool       // there is something to do
	running bool       // a goroutine runs work

	runs sync.WaitGroup
}

// begin starts the worker, with a first run at once.
func (w *worker) begin(work func()) {
	w.mu.Lock()
	w.work = work
	w.mu.Unlock()
	w.wake()
}

// wake requests one more run, after the one that is under way. It never blocks.
func (w *worker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = true
	if w.work != nil && !w.running {
		w.running = true
		w.runs.Go(w.run)
	}
}

func (w *worker) run() {
	for work := w.next(); work != nil; work = w.next() {
		work()
	}
}

func (w *worker) next() (work func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running = w.due && w.work != nil; !w.running {
		return nil
	}
	w.due = false
	return w.work
}

// end stops the worker, and waits for the run that is under way.
func (w *worker) end() {
	w.mu.Lock()
	w.work = nil
	w.mu.Unlock()
	w.runs.Wait()
}
