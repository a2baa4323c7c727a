package console

import "strings"

// These are the messages to viewers. Instants are in milliseconds since 1970, by the clock of this
// host or of the leader that reported them; the page corrects them by Site.NowMS. Durations would
// change with every read, and so have every row sent again.
type (
	// Site is what is not about one election.
	Site struct {
		Prefix  string `json:"prefix"`
		NowMS   int64  `json:"now"`
		Known   bool   `json:"known"`           // a majority of the nodes can be read
		AsOfMS  int64  `json:"as_of,omitempty"` // since when a majority can't be read
		Nodes   []Node `json:"nodes"`
		Hidden  int    `json:"hidden,omitempty"`  // elections that are left out
		Problem string `json:"problem,omitempty"` // why the list may not be complete
	}

	// Node is a Redis node.
	Node struct {
		Name  string `json:"name"`
		Error string `json:"error,omitempty"`
	}

	// Row is an election, or a group of shards with its members as the candidates.
	Row struct {
		Election   string      `json:"election"`
		Rank       int         `json:"rank"` // rows are sorted by it; those of RankUrgent need an operator
		State      string      `json:"state"`
		Leader     string      `json:"leader,omitempty"`
		Address    string      `json:"address,omitempty"`
		Token      uint64      `json:"token,string,omitempty"` // as text: JavaScript rounds such numbers
		SinceMS    int64       `json:"since,omitempty"`        // since when the leader leads
		Able       string      `json:"able"`                   // of how many candidates how many lead or could be elected now; empty: not known
		Problem    string      `json:"problem,omitempty"`
		Next       string      `json:"next,omitempty"` // the command to type
		Candidates []Candidate `json:"candidates"`
		Terms      []Term      `json:"terms"` // newest first
	}

	// Candidate is a candidate, or a member of a group.
	Candidate struct {
		ID      string `json:"id"`
		Role    string `json:"role"`
		Health  string `json:"health"`
		OK      bool   `json:"ok"`
		Detail  string `json:"detail,omitempty"`
		Version string `json:"version,omitempty"`
		Host    string `json:"host,omitempty"`
	}

	// Term is a term of the history.
	Term struct {
		Token   uint64 `json:"token,string"`
		ID      string `json:"id"`
		Current bool   `json:"current"`
		FromMS  int64  `json:"from,omitempty"`
		UntilMS int64  `json:"until,omitempty"`
		Reason  string `json:"reason,omitempty"`
		Wanted  bool   `json:"wanted"` // its end was intended
		Detail  string `json:"detail,omitempty"`
	}
)

// These are ranks of rows.
const (
	RankUrgent  = iota // there should be a leader, or owners; or there are two leaders
	RankProblem        // there is one, and something is wrong
	RankPaused
	RankWell
	RankAbandoned
)

// These bound what viewers are sent: more is of no use on a page, and anyone who may write to Redis
// must not be able to fill a browser's memory.
const (
	maxCandidates = 50  // of an election
	maxTerms      = 10  // of an election
	maxText       = 300 // bytes of a text
)

// bounded returns the row with its lists and texts cut to size.
func (r Row) bounded() Row {
	for _, text := range []*string{&r.Leader, &r.Address, &r.Problem, &r.Next} {
		*text = cut(*text)
	}
	candidates := []Candidate{} // not null
	for _, c := range r.Candidates[:min(maxCandidates, len(r.Candidates))] {
		candidates = append(candidates, Candidate{cut(c.ID), cut(c.Role), c.Health, c.OK, cut(c.Detail), cut(c.Version), cut(c.Host)})
	}
	terms := []Term{}
	for _, t := range r.Terms[:min(maxTerms, len(r.Terms))] {
		t.ID, t.Reason, t.Detail = cut(t.ID), cut(t.Reason), cut(t.Detail)
		terms = append(terms, t)
	}
	r.Candidates, r.Terms = candidates, terms
	return r
}

func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}
