package elector

import (
	"sync"
	"time"
)

// report is an event that all nodes are to record: a process that hands over thousands of elections encodes each once. How late
// it is differs from node to node.
type report struct {
	ev   Event
	once sync.Once
	text []byte // of ev
}

// at is the event as it is sent: as it is, or by so much late.
func (r *report) at(held, late time.Duration) []byte {
	r.once.Do(func() { r.text = r.ev.encode() })
	if held == 0 && late == 0 {
		return r.text
	}
	b := append(make([]byte, 0, len(r.text)+64), r.text[:len(r.text)-len("}")]...)
	if held != 0 {
		b = millis(held).append(append(b, `,"held_ms":`...))
	}
	if late != 0 {
		b = millis(late).append(append(b, `,"late_ms":`...))
	}
	return append(b, '}')
}
