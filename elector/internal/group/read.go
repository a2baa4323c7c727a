package group

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Read reads what each node keeps of a group, and waits at most limit for each node. It needs
// only the rights to read.
func Read(ctx context.Context, nodes *quorum.Nodes, prefix, name string, limit time.Duration) []View {
	s := NewStore(nodes, prefix, name, 0, 0, limit)
	views := make([]View, nodes.Len())
	var all sync.WaitGroup
	for node := range views {
		all.Go(func() { views[node] = s.view(ctx, node) })
	}
	all.Wait()
	return views
}
