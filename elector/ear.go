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
	joined chan struct{} // closed when all nodes have taken our subscription
	mu     sync.Mutex
	heard  []quorum.Signal
	nodes  map[int]bool
}

func newEar(nodes *quorum.Nodes, channel string) *ear {
	e := &ear{poke: make(chan struct{}, 1), joined: make(chan struct{}), nodes: map[int]bool{}}
	e.stop = nodes.Watch(channel, func(s quorum.Signal) {
		e.mu.Lock()
		defer e.mu.Unlock()
		switch {
		case s.Kind == quorum.Subscribed && !e.nodes[s.Node]:
			e.nodes[s.Node] = true
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

// await waits until all nodes listen to us, at most for the limit.
func (e *ear) await(ctx context.Context, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-e.joined:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (e *ear) take() []quorum.Signal {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.heard
	e.heard = nil
	return all
}
