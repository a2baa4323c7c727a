package elector

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// ear collects what is said on a channel.
type ear struct {
	stop   func()
	poke   chan struct{}
	joined chan struct{} // closed when all nodes have taken or refused our subscription
	mu     sync.Mutex
	heard  []quorum.Signal
	nodes  map[int]error // nil: it has taken it; else why it never will
}

func newEar(nodes *quorum.Nodes, channel string) *ear {
	e := &ear{poke: make(chan struct{}, 1), joined: make(chan struct{}), nodes: map[int]error{}}
	e.stop = nodes.Watch(channel, func(s quorum.Signal) {
		e.mu.Lock()
		defer e.mu.Unlock()
		switch {
		case s.Kind == quorum.Subscribed || s.Kind == quorum.Deaf && quorum.Permanent(s.Err):
			if _, again := e.nodes[s.Node]; again {
				return
			}
			e.nodes[s.Node] = s.Err
			if len(e.nodes) == nodes.Len() {
				close(e.joined)
			}
		case s.Kind == quorum.Message && len(s.Payload) <= maxEvent && len(e.heard) < mostAnswers:
			e.heard = append(e.heard, s)
			select {
			case e.poke <- struct{}{}:
			default:
			}
		}
	})
	return e
}

// mostAnswers is more than any election has candidates.
const mostAnswers = 10_000

func (e *ear) close() { e.stop() }

// await waits until we listen to all nodes, at most for the limit. The errors, by
// node, say why we never hear anything: every node refuses.
func (e *ear) await(ctx context.Context, limit time.Duration) []error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-e.joined:
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var refused []error
	for i := range len(e.nodes) {
		if e.nodes[i] == nil {
			return nil
		}
		refused = append(refused, e.nodes[i])
	}
	return refused
}

func (e *ear) take() []quorum.Signal {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.heard
	e.heard = nil
	return all
}
