package elector

import (
	"strconv"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// heard is what messages told since the last claim.
type heard struct {
	front, all map[int]bool   // nodes that reported the release on wake, on events
	named      map[string]int // successors that the nodes named
	token      uint64         // of the released term
	leads      uint64         // the highest token that was announced as elected
	postponed  bool           // the claim was put off once because of that
	again      bool           // (re)subscribed: something may have been missed
}

// Messages on the wake channel are short words for the few that must be fast:
// "released <token> <who goes first>" and "elected <token>".
const (
	wakeReleased = "released "
	wakeElected  = "elected "
)

// hear runs on the subscription's goroutine.
func (w *waiter) hear(s quorum.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch s.Kind {
	case quorum.Deaf: // the lease's end is waited for in any case
		w.e.sayDeaf(s.Err)
		return
	case quorum.Subscribed:
		if s.Channel != w.e.keys.Events {
			return
		}
		w.heard.again = true
	case quorum.Message:
		if !w.take(s) {
			return
		}
	}
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// take notes what a message says; false when it says nothing to us. Garbage is
// nothing: whoever writes there can't make us do more than ask.
func (w *waiter) take(s quorum.Signal) bool {
	if s.Channel != w.e.keys.Wake {
		ev, err := ParseEvent(s.Payload)
		if err != nil || ev.Election != w.e.cfg.Election {
			return false
		}
		switch ev.Kind {
		case Elected:
			return w.election(ev.Token)
		case Released:
			if !w.release(ev.Token) || w.heard.all[s.Node] {
				return false // each node reports a release once
			}
			w.heard.all[s.Node] = true
			if ev.Next != "" {
				w.heard.named[heirMark+ev.Next]++
			}
			return true
		default:
			return false
		}
	}
	if rest, ok := strings.CutPrefix(s.Payload, wakeElected); ok {
		token, err := strconv.ParseUint(rest, 10, 64)
		return err == nil && w.election(token)
	}
	rest, ok := strings.CutPrefix(s.Payload, wakeReleased)
	number, next, _ := strings.Cut(rest, " ")
	token, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || !w.release(token) || w.heard.front[s.Node] {
		return false
	}
	if next != "" && !w.heard.all[s.Node] {
		w.heard.named[next]++
	}
	w.heard.front[s.Node], w.heard.all[s.Node] = true, true
	return true
}

func (w *waiter) election(token uint64) bool {
	if token > w.plausible() {
		return false
	}
	w.heard.leads = max(w.heard.leads, token)
	return token > w.heard.token
}

// release makes room for the reports of the end of that term; false when it is
// old, or can't be.
func (w *waiter) release(token uint64) bool {
	h := &w.heard
	// On the events channel the winner's "elected" overtakes the "released" that
	// made room for it.
	if token < h.token || token < h.leads || token < w.token || token > w.plausible() {
		return false
	}
	if token > h.token || h.all == nil {
		*h = heard{
			token: token, leads: h.leads, postponed: h.postponed, again: h.again,
			front: map[int]bool{}, all: map[int]bool{}, named: map[string]int{},
		}
	}
	return true
}

// plausible is the highest token that can have been granted by now: a forged
// one above it must not make true ones look old.
func (w *waiter) plausible() uint64 {
	const ahead = 2 * time.Hour // more than a script lets a hint be
	return max(w.highest+1<<20, uint64(max(0, time.Now().Add(ahead).UnixMilli())))
}
