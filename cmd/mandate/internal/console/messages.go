package console

import (
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// These are the messages to viewers. Times are in milliseconds. They are durations rather than
// instants where only a duration is known: the clock of the browser differs from those of this host
// and of the candidates.
type (
	site struct {
		Prefix  string `json:"prefix"`
		Actions bool   `json:"actions"` // the buttons are enabled, and need the token
		Hidden  int    `json:"hidden,omitempty"`
		Problem string `json:"problem,omitempty"` // the list may not be complete
	}

	gone struct {
		Election string `json:"election"`
	}

	status struct {
		Election    string  `json:"election"`
		NowMS       int64   `json:"now_ms"` // since 1970, by this host's clock
		Leader      *leader `json:"leader"`
		Paused      bool    `json:"paused"`
		Pause       string  `json:"pause,omitempty"`
		PauseLeftMS int64   `json:"pause_left_ms,omitempty"` // 0: until it is resumed
		Blocked     string  `json:"blocked,omitempty"`       // why no candidate can lead
		Conflict    string  `json:"conflict,omitempty"`      // why two candidates may lead
		Nodes       []node  `json:"nodes"`
		AsOfMS      int64   `json:"as_of,omitempty"` // when this was read, if it could not be read since
		Error       string  `json:"error,omitempty"` // why it could not be read
	}

	leader struct {
		ID      string `json:"id"`
		Address string `json:"address,omitempty"`
		Token   uint64 `json:"token"`
		ForMS   int64  `json:"for_ms,omitempty"` // 0: unknown
		LeftMS  int64  `json:"left_ms"`
		LeaseMS int64  `json:"lease_ms"` // the longest remaining lease seen in this term
	}

	node struct {
		Name       string  `json:"name"`
		Error      string  `json:"error,omitempty"`
		RTTMS      float64 `json:"rtt_ms"`
		AbstainsMS int64   `json:"abstains_ms,omitempty"`
	}

	roll struct {
		Election   string      `json:"election"`
		NowMS      int64       `json:"now_ms"` // since 1970, by this host's clock
		Candidates []candidate `json:"candidates"`
		Hidden     int         `json:"hidden,omitempty"`
		Error      string      `json:"error,omitempty"`
	}

	candidate struct {
		ID             string `json:"id"`
		Incarnation    string `json:"incarnation"`
		Address        string `json:"address,omitempty"`
		Version        string `json:"version,omitempty"`
		Host           string `json:"host,omitempty"`
		Role           string `json:"role"`
		Healthy        bool   `json:"healthy"`
		Able           bool   `json:"able"`             // it leads, or could be elected now
		Unable         bool   `json:"unable,omitempty"` // it is not healthy, but not because of its probes
		RestMS         int64  `json:"rest_ms,omitempty"`
		RestReason     string `json:"rest_reason,omitempty"`
		Detail         string `json:"detail,omitempty"`
		Mark           string `json:"mark,omitempty"` // what is wrong between it and other candidates
		Priority       int    `json:"priority,omitempty"`
		RunningMS      int64  `json:"running_ms"`
		UnresponsiveMS int64  `json:"unresponsive_ms,omitempty"` // how long ago it last answered, if it does not now
	}

	terms struct {
		Election string `json:"election"`
		Terms    []term `json:"terms"` // newest first
		Error    string `json:"error,omitempty"`
	}

	term struct {
		Token   uint64 `json:"token"`
		ID      string `json:"id"`
		Current bool   `json:"current"`
		From    int64  `json:"from,omitempty"`  // ms since 1970, by the leader's clock
		Until   int64  `json:"until,omitempty"` // likewise
		Reason  string `json:"reason,omitempty"`
		Detail  string `json:"detail,omitempty"`
		GapMS   *int64 `json:"gap_ms,omitempty"`

		// If the end was not reported: upper bounds of how long it led, and of how long none led
		// after it.
		MaxLastedMS int64 `json:"max_lasted_ms,omitempty"`
		MaxGapMS    int64 `json:"max_gap_ms,omitempty"`

		Overlaps []uint64 `json:"overlaps,omitempty"` // tokens of terms that were valid at the same time
	}
)

// These bound what viewers are sent: more is of no use on a page, and anyone who may write to Redis
// must not be able to fill a browser's memory.
const (
	maxShown      = 2000 // elections
	maxCandidates = 100  // of an election
	maxTerms      = 40   // of an election
	maxText       = 300  // bytes of a text
)

// bounded truncates text from Redis.
func bounded(s string) string { return cut(s, maxText) }

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// problemText formats an error for a person.
func problemText(err error) string {
	if err == nil {
		return ""
	}
	return bounded(strings.ReplaceAll(elector.Problem(err), "\n", "; "))
}

func statusOf(election string, st elector.Status, err error, now time.Time) status {
	s := status{
		Election: election, NowMS: now.UnixMilli(), Nodes: []node{}, Error: problemText(err),
		Paused: st.Paused, Pause: bounded(st.Pause), PauseLeftMS: st.PauseLeft.Milliseconds(),
		Blocked: bounded(st.Blocked), Conflict: bounded(st.Conflict),
	}
	for _, n := range st.Nodes {
		why := n.Error
		if n.Foreign != "" {
			why = "can't vote: its lock key holds " + n.Foreign + ", which no candidate wrote"
		}
		s.Nodes = append(s.Nodes, node{
			Name: n.Node, Error: bounded(why), RTTMS: float64(n.RTT.Microseconds()) / 1000, AbstainsMS: n.Abstains.Milliseconds(),
		})
	}
	if l := st.Leader; l != nil {
		s.Leader = &leader{ID: bounded(l.Candidate), Address: bounded(l.Advertise), Token: l.Token, LeftMS: l.LeaseLeft.Milliseconds()}
		if !l.Since.IsZero() {
			s.Leader.ForMS = max(1, now.Sub(l.Since).Milliseconds())
		}
	}
	return s
}

func candidateOf(c elector.CandidateStatus, unresponsive time.Duration) candidate {
	return candidate{
		ID: bounded(c.ID), Incarnation: bounded(c.Incarnation), Address: bounded(c.Advertise), Version: bounded(c.Version), Host: bounded(c.Host),
		Role: bounded(string(c.Role)), Healthy: c.Healthy, Able: c.Able(), Unable: c.Unable,
		RestMS: c.RestFor.Milliseconds(), RestReason: bounded(c.RestReason), Detail: bounded(c.Detail), Priority: c.Priority,
		RunningMS: c.RunningFor.Milliseconds(), UnresponsiveMS: unresponsive.Milliseconds(),
	}
}

func termsOf(election string, records []elector.TermRecord, err error) terms {
	t := terms{Election: election, Terms: []term{}, Error: problemText(err)}
	for _, r := range records {
		one := term{Token: r.Token, ID: bounded(r.Candidate), Current: r.Current, Reason: bounded(string(r.Reason)), Detail: bounded(r.Detail), Overlaps: r.Overlaps[:min(maxTerms, len(r.Overlaps))]}
		if !r.From.IsZero() {
			one.From = r.From.UnixMilli()
		}
		if !r.Until.IsZero() {
			one.Until = r.Until.UnixMilli()
		}
		if r.Gap != 0 {
			ms := r.Gap.Milliseconds()
			one.GapMS = &ms
		}
		one.MaxLastedMS, one.MaxGapMS = r.MaxLasted.Milliseconds(), r.MaxGap.Milliseconds()
		t.Terms = append(t.Terms, one)
	}
	return t
}
