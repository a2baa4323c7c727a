package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/inside"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// writeTimeout bounds Writable when the caller's context does not.
const writeTimeout = 1500 * time.Millisecond

// Writable checks whether each node accepts writes. Reading does not reveal that: a node that is out
// of memory or disk answers every query, but no leader can be elected on it. Writable sets one more
// key (prefix:{election}:check), which expires after 100 ms, and waits at most 1.5 s, or until ctx
// ends. It returns one Finding of the check "write" for each node, in their order: LevelOK;
// LevelFail, with the node's error; LevelUnknown if this Redis user may not write, or the node did
// not answer. It returns an error in the same cases as Examine.
func Writable(ctx context.Context, q *elector.Quorum, election string) ([]Finding, error) {
	nodes := inside.NodesOf(q)
	if nodes == nil {
		return nil, errors.New("doctor: no Quorum: make one with elector.Open or elector.NewQuorum")
	}
	if _, err := q.Election(election); err != nil {
		return nil, fmt.Errorf("doctor: %w", err)
	}
	var findings []Finding
	for i, err := range registry.TryWrite(ctx, nodes, protocol.KeysOf(q.Prefix(), election), writeTimeout) {
		f := Finding{Node: nodes.Names()[i], Check: "write", Level: LevelOK, Found: "it accepts writes"}
		switch {
		case rediserr.Denied(err):
			f.Level, f.Found = LevelUnknown, "this Redis user may not write"
		case err != nil && !rediserr.Answered(err):
			f.Level, f.Found = LevelUnknown, problemOf(err)
		case err != nil:
			f.Level, f.Found, f.Advice = LevelFail, strings.TrimRight(problemOf(err), "."), remedy(problemOf(err))
		}
		findings = append(findings, f)
	}
	return findings, nil
}
