package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Periods of a hub.
const (
	pingEvery  = 30 * time.Second // of silence: a black hole gives no other sign
	retryFirst = 50 * time.Millisecond
	retryMost  = 5 * time.Second
)

// hub is the one subscription to a node that all electors of a process share.
type hub struct {
	open func() *redis.PubSub

	mu     sync.Mutex
	ears   map[string][]*Listener
	joined map[string]bool // confirmed by the server on this connection
	ps     *redis.PubSub   // nil while nobody listens
	kick   chan struct{}   // wants changed
	done   chan struct{}   // closed when the goroutines of ps have ended
	heard  time.Time
	// refused: the server answered a SUBSCRIBE with an error that may pass (LOADING
	// after a restart). The connection stays, so go-redis never subscribes again.
	refused bool
	shut    bool
}

func newHub(open func() *redis.PubSub) *hub {
	return &hub{open: open, ears: map[string][]*Listener{}}
}

func (h *hub) add(channel string, l *Listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut {
		return
	}
	h.ears[channel] = append(append([]*Listener(nil), h.ears[channel]...), l)
	if h.ps == nil {
		h.start()
	}
	h.wake()
	if h.joined[channel] {
		go l.hear(Signal{Kind: Subscribed, Channel: channel})
	}
}

func (h *hub) remove(channel string, l *Listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var rest []*Listener
	for _, e := range h.ears[channel] {
		if e != l {
			rest = append(rest, e)
		}
	}
	if len(rest) > 0 {
		h.ears[channel] = rest
	} else {
		delete(h.ears, channel)
	}
	h.wake()
}

func (h *hub) wake() {
	if h.kick == nil {
		return
	}
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// start must be called with mu held.
func (h *hub) start() {
	h.kick, h.done, h.joined, h.heard = make(chan struct{}, 1), make(chan struct{}), map[string]bool{}, time.Now()
	ps, kick, done := h.open(), h.kick, h.done
	h.ps = ps
	ctx, cancel := context.WithCancel(context.Background())
	asked := map[string]bool{}
	first := make(chan struct{})
	reading := make(chan struct{})
	go func() { // reads; starts when there is something to read
		defer close(reading)
		select {
		case <-first:
			h.read(ctx, ps)
		case <-ctx.Done():
		}
	}()
	go func() { // writes: what is wanted, and signs of life
		defer close(done)
		h.write(ctx, ps, asked, kick, sync.OnceFunc(func() { close(first) }))
		cancel()
		_ = ps.Close()
		<-reading
	}()
}

// write subscribes and unsubscribes as the listeners want it, until nobody
// listens any more.
func (h *hub) write(ctx context.Context, ps *redis.PubSub, asked map[string]bool, kick chan struct{}, ready func()) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-kick:
		case <-tick.C:
			if !h.alive(ctx, ps) {
				return
			}
			continue
		}
		add, drop, end := h.wanted(ps, asked)
		if end {
			return
		}
		// An error is the reader's to see. go-redis keeps what was asked for and
		// subscribes again when it reconnects; where the server refused, the reader
		// has it asked for again.
		if len(add) > 0 {
			_ = ps.Subscribe(ctx, add...)
			ready()
		}
		if len(drop) > 0 {
			_ = ps.Unsubscribe(ctx, drop...)
		}
	}
}

// wanted compares what was asked for with what is listened to; end is set, and
// the hub is free for a new start, when nobody listens.
func (h *hub) wanted(ps *redis.PubSub, asked map[string]bool) (add, drop []string, end bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ps != ps {
		return nil, nil, true
	}
	if len(h.ears) == 0 || h.shut {
		h.ps, h.kick = nil, nil
		return nil, nil, true
	}
	for ch := range h.ears {
		if !asked[ch] || h.refused && !h.joined[ch] {
			asked[ch] = true
			add = append(add, ch)
		}
	}
	h.refused = false
	for ch := range asked {
		if len(h.ears[ch]) == 0 {
			delete(asked, ch)
			delete(h.joined, ch)
			drop = append(drop, ch)
		}
	}
	return add, drop, false
}

// alive pings after a silence. Two silent periods in a row mean a dead
// connection that nobody reset: start again on a new one.
func (h *hub) alive(ctx context.Context, ps *redis.PubSub) bool {
	h.mu.Lock()
	silent := time.Since(h.heard)
	if silent > 2*pingEvery && h.ps == ps {
		h.start()
		h.wake()
		h.mu.Unlock()
		return false
	}
	h.mu.Unlock()
	if silent >= pingEvery {
		_ = ps.Ping(ctx)
	}
	return true
}

func (h *hub) read(ctx context.Context, ps *redis.PubSub) {
	pause := retryFirst
	for ctx.Err() == nil {
		m, err := ps.Receive(ctx)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, redis.ErrClosed) {
				return
			}
			h.lost(err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, retryMost)
			h.again(ps, err)
			continue
		}
		pause = retryFirst
		h.dispatch(m)
	}
}

// again has the channels asked for again that a server refused. A missing right stays
// missing until the connection is renewed: asking every few seconds would fill the logs
// of the server.
func (h *hub) again(ps *redis.PubSub, err error) {
	var refusal redis.Error
	if !errors.As(err, &refusal) || Permanent(err) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ps == ps {
		h.refused = true
		h.wake()
	}
}

func (h *hub) dispatch(m any) {
	h.mu.Lock()
	h.heard = time.Now()
	s := Signal{Kind: Message}
	switch m := m.(type) {
	case *redis.Message:
		s.Channel, s.Payload = m.Channel, m.Payload
	case *redis.Subscription:
		if m.Kind != "subscribe" {
			h.mu.Unlock()
			return
		}
		s.Kind, s.Channel = Subscribed, m.Channel
		h.joined[m.Channel] = true
	default: // a pong
		h.mu.Unlock()
		return
	}
	ears := h.ears[s.Channel] // never changed in place
	h.mu.Unlock()
	for _, l := range ears {
		l.hear(s)
	}
}

// lost tells every listener that it may miss messages.
func (h *hub) lost(err error) {
	h.mu.Lock()
	clear(h.joined)
	all := make(map[string][]*Listener, len(h.ears))
	for ch, ears := range h.ears {
		all[ch] = ears
	}
	h.mu.Unlock()
	for ch, ears := range all {
		err := needs(err, "+subscribe &"+ch)
		for _, l := range ears {
			l.hear(Signal{Kind: Deaf, Channel: ch, Err: err})
		}
	}
}

// closePatience is how long close waits for a subscription to end: go-redis may
// be dialling a hung node, and can't be interrupted at it.
const closePatience = 100 * time.Millisecond

// close ends the subscription and waits for its goroutines, for a bounded time.
func (h *hub) close() {
	h.mu.Lock()
	h.shut = true
	done := h.done
	ps := h.ps
	h.wake()
	h.mu.Unlock()
	if done == nil {
		return // never started
	}
	if ps != nil {
		go func() { _ = ps.Close() }() // frees the reader
	}
	timer := time.NewTimer(closePatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
