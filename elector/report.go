package elector

import (
	"sync"
	"time"
)

// report is an event that all nodes record. It is encoded once, because a process may hand over
// thousands of elections; only how late it is differs from node to node.
type report struct {
	ev   Event
	once sync.Once
	text []byte // of ev
}

// at returns the encoded event, with Held and Late where they are not zero.
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
