package console

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

// These are the messages of the view by host: which elections the candidates of each host lead, and
// which they follow.
type (
	hostList struct {
		Hosts  []host `json:"hosts"`
		Hidden int    `json:"hidden,omitempty"`
	}

	host struct {
		Host  string `json:"host"` // "": unknown
		Lines []line `json:"lines"`
	}

	// line is a candidate, or all candidates of a process that has many.
	line struct {
		PID     int      `json:"pid,omitempty"`
		ID      string   `json:"id,omitempty"`
		IDs     int      `json:"ids"`
		Address string   `json:"address,omitempty"`
		Version string   `json:"version,omitempty"`
		Leads   []string `json:"leads"`
		Follows []string `json:"follows"`
		Unable  []string `json:"unable"` // the part of follows that could not lead now
		// Groups are the groups that it is a member of, and how many of their shards it owns.
		Groups []owned `json:"groups,omitempty"`
	}

	owned struct {
		Group  string `json:"group"`
		Shards int    `json:"shards"`
	}
)

const (
	maxHosts = 500
	maxLines = 8 // candidates of one process; more are combined into one line
)

// place identifies a host, a process on it, or a candidate.
type place struct {
	host string
	pid  int
	id   string
}

// hostCache keeps which candidates run on which host. It is safe for concurrent use; mu guards all
// fields.
type hostCache struct {
	mu      sync.Mutex
	viewers int
	dirty   bool
	rolls   map[string][]elector.CandidateStatus // by election
	leaders map[string]elector.Leader
	groups  map[string][]shard.MemberStatus
}

func newHostCache() *hostCache {
	return &hostCache{rolls: map[string][]elector.CandidateStatus{}, leaders: map[string]elector.Leader{}, groups: map[string][]shard.MemberStatus{}}
}

// open counts a viewer until closed is called.
func (h *hostCache) open() (closed func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.viewers++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.viewers--
	}
}

func (h *hostCache) called(election string, all []elector.CandidateStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rolls[election], h.dirty = all[:min(maxCandidates, len(all))], true
}

// led records the leader of an election; nil: there is none.
func (h *hostCache) led(election string, l *elector.Leader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l == nil {
		delete(h.leaders, election)
	} else {
		h.leaders[election] = *l
	}
	h.dirty = true
}

// grouped records the members of a group.
func (h *hostCache) grouped(st shard.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.groups[st.Group], h.dirty = st.Members[:min(maxMembers, len(st.Members))], true
}

func (h *hostCache) dropGroup(group string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.groups, group)
	h.dirty = true
}

func (h *hostCache) drop(election string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.rolls, election)
	delete(h.leaders, election)
	h.dirty = true
}

// list returns the current list. It returns false if nothing has changed, or if there are no
// viewers.
func (h *hostCache) list() (hostList, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.viewers == 0 || !h.dirty {
		return hostList{}, false
	}
	h.dirty = false
	return h.arranged(), true
}

// arranged builds the list. The caller holds mu.
func (h *hostCache) arranged() hostList {
	places := map[place]*line{}
	at := func(p place) *line {
		if places[p] == nil {
			places[p] = &line{PID: p.pid, ID: bounded(p.id), IDs: 1, Leads: []string{}, Follows: []string{}, Unable: []string{}}
		}
		return places[p]
	}
	for election, roll := range h.rolls {
		// A roll may be older than the status, so the leader is taken from the status.
		for _, c := range roll {
			one := at(place{c.Host, c.PID, c.ID})
			one.Address, one.Version = bounded(c.Advertise), bounded(c.Version)
			if l, led := h.leaders[election]; led && l.Incarnation == c.Incarnation {
				one.Leads = append(one.Leads, election)
				continue
			}
			one.Follows = append(one.Follows, election)
			if !c.Able() {
				one.Unable = append(one.Unable, election)
			}
		}
	}
	for election, l := range h.leaders {
		if !slices.ContainsFunc(h.rolls[election], func(c elector.CandidateStatus) bool { return c.Incarnation == l.Incarnation }) {
			one := at(place{id: l.Candidate}) // the leader does not answer, or the roll was not called yet
			one.Address = bounded(l.Advertise)
			one.Leads = append(one.Leads, election)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(h.groups)) {
		for _, m := range h.groups[group] {
			one := at(place{m.Host, m.PID, m.ID})
			one.Address, one.Version = bounded(m.Advertise), bounded(m.Version)
			one.Groups = append(one.Groups, owned{group, len(m.Owned)})
		}
	}
	return hostsOf(places)
}

func hostsOf(places map[place]*line) hostList {
	ids := map[place]int{} // number of candidates of each process
	for p := range places {
		ids[place{host: p.host, pid: p.pid}]++
	}
	byHost := map[string]map[place]*line{}
	for p, one := range places {
		if process := (place{host: p.host, pid: p.pid}); ids[process] > maxLines && p.host != "" {
			p = process
		}
		if byHost[p.host] == nil {
			byHost[p.host] = map[place]*line{}
		}
		same := byHost[p.host][p]
		if same == nil {
			byHost[p.host][p] = one
			continue
		}
		same.ID, same.Address, same.IDs = "", "", same.IDs+1
		same.Leads, same.Follows, same.Unable = append(same.Leads, one.Leads...), append(same.Follows, one.Follows...), append(same.Unable, one.Unable...)
		same.Groups = joined(same.Groups, one.Groups)
	}
	list := hostList{Hosts: []host{}}
	for _, name := range slices.Sorted(maps.Keys(byHost)) {
		if len(list.Hosts) >= maxHosts {
			list.Hidden++
			continue
		}
		one := host{Host: bounded(name)}
		for _, l := range byHost[name] {
			for _, names := range [][]string{l.Leads, l.Follows, l.Unable} {
				slices.Sort(names)
			}
			one.Lines = append(one.Lines, *l)
		}
		slices.SortFunc(one.Lines, func(a, b line) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.PID, b.PID)) })
		list.Hosts = append(list.Hosts, one)
	}
	return list
}

// joined merges the groups of several members of one process.
func joined(a, b []owned) []owned {
	for _, o := range b {
		if i := slices.IndexFunc(a, func(x owned) bool { return x.Group == o.Group }); i >= 0 {
			a[i].Shards += o.Shards
		} else {
			a = append(a, o)
		}
	}
	return a
}
