package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/listing"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

// memberNames are the ids and the hosts of the candidates and of the members of groups that
// answered.
type memberNames struct {
	mu       sync.Mutex
	ids      map[string]bool
	hosts    map[string]bool
	complete bool // all elections and groups were read
}

func (n *memberNames) add(id, host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids[id] = true
	if host != "" {
		n.hosts[host] = true
	}
}

func (n *memberNames) miss() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.complete = false
}

func (n *memberNames) has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ids[name] || n.hosts[name]
}

// membersWithin bounds the search for a name; a roll call may take as long.
const membersWithin = 3 * time.Second

// readMembers reads the names in these elections, which list those in use first, until ctx ends or
// until the name wanted is found.
func readMembers(ctx context.Context, q *elector.Quorum, names []string, wanted string) *memberNames {
	n := &memberNames{ids: map[string]bool{}, hosts: map[string]bool{}, complete: true}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	others, groups, left := listing.Fold(names, listing.MaxGroups)
	if left > 0 {
		n.miss()
	}
	calls := newRollCalls()
	read := make(chan func() error)
	var readers sync.WaitGroup
	for range parallelReads {
		readers.Go(func() {
			for f := range read {
				if ctx.Err() != nil || f() != nil {
					n.miss()
				}
				if n.has(wanted) {
					cancel()
				}
			}
		})
	}
	call := func(name string) error {
		el, err := q.Election(name)
		if err != nil {
			return err
		}
		roll, err := calls.call(ctx, el)
		for _, c := range roll {
			n.add(c.ID, c.Host)
		}
		return err
	}
	for _, g := range groups {
		read <- func() error {
			st, err := shard.Read(ctx, q, g.Name)
			for _, m := range st.Members {
				n.add(m.ID, m.Host)
			}
			if errors.Is(err, shard.ErrNoGroup) { // not a group, only elections with such names
				return err
			}
			return call(shard.ElectionOfAssigner(g.Name)) // without the right to read the members, there is at least the assigner's roll
		}
	}
	for _, name := range others {
		read <- func() error { return call(name) }
	}
	close(read)
	readers.Wait()
	return n
}

// nobodyCalled returns a warning if no candidate, member or host has the name; empty if one has it,
// or if that is unknown. A mistyped name cordons nothing, but its cordon looks like any other.
func (a *app) nobodyCalled(ctx context.Context, name string) string {
	ctx, cancel := context.WithTimeout(ctx, membersWithin)
	defer cancel()
	used, _, err := a.quorum.ElectionsByUse(ctx)
	if err != nil {
		return ""
	}
	n := readMembers(ctx, a.quorum, used, name)
	if !n.complete || n.has(name) {
		return ""
	}
	text := "no candidate, member or host that answers is called " + output.Printable(name)
	if len(n.ids) == 0 {
		return text + ": none answers under the prefix " + output.Printable(a.prefix)
	}
	const few = 5
	text += fmt.Sprintf(". Candidates: %s; hosts: %s", output.List(closest(name, n.ids), few), output.List(closest(name, n.hosts), few))
	return output.Printable(text) + " (" + a.given.command("candidates", "NAME") + " and " + a.given.command("shards", "GROUP") + " show all)"
}

// closest sorts names by how much they differ from the typed one.
func closest(typed string, names map[string]bool) []string {
	all := slices.Sorted(maps.Keys(names))
	difference := make(map[string]int, len(all))
	for _, name := range all {
		difference[name] = edits(strings.ToLower(typed), strings.ToLower(name))
	}
	slices.SortStableFunc(all, func(a, b string) int { return difference[a] - difference[b] })
	return all
}

// edits returns how many characters to insert, remove or replace to turn a into b (the Levenshtein
// distance).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			same := before
			if a[i] != b[j] {
				same++
			}
			before = row[j+1]
			row[j+1] = min(same, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
