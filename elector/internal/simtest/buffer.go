package simtest

import (
	"net"
	"sync"
)

// Buffered gives a connection in memory the buffers that a real one has. Without
// them writer and reader wait for each other; go-redis and miniredis do so with
// a mutex held, and a bubble's clock stands still while anybody waits for one.
func Buffered(far net.Conn) net.Conn {
	near, middle := net.Pipe()
	up, down := newBuffer(), newBuffer()
	var once sync.Once
	end := func() {
		once.Do(func() {
			_ = middle.Close()
			_ = far.Close()
			up.close()
			down.close()
		})
	}
	go up.fill(middle, end)
	go up.drain(far, end)
	go down.fill(far, end)
	go down.drain(middle, end)
	return near
}

type buffer struct {
	mu      sync.Mutex
	changed *sync.Cond
	bytes   []byte
	closed  bool
}

func newBuffer() *buffer {
	b := &buffer{}
	b.changed = sync.NewCond(&b.mu)
	return b
}

func (b *buffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.changed.Broadcast()
}

// fill takes whatever the connection has, at once.
func (b *buffer) fill(from net.Conn, end func()) {
	defer end()
	chunk := make([]byte, 4<<10)
	for {
		n, err := from.Read(chunk)
		b.mu.Lock()
		b.bytes = append(b.bytes, chunk[:n]...)
		b.changed.Broadcast()
		b.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// drain passes it on, as fast as the other side takes it.
func (b *buffer) drain(to net.Conn, end func()) {
	defer end()
	for {
		b.mu.Lock()
		for len(b.bytes) == 0 && !b.closed {
			b.changed.Wait()
		}
		chunk := b.bytes
		b.bytes = nil
		b.mu.Unlock()
		if len(chunk) == 0 {
			return
		}
		if _, err := to.Write(chunk); err != nil {
			return
		}
	}
}
