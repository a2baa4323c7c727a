package doctor

import (
	"slices"
	"strings"
)

// Level is how bad a Finding is.
type Level string

// The levels, from good to bad.
const (
	LevelOK      Level = "ok"
	LevelUnknown Level = "unknown" // it could not be checked, often because a right is missing
	LevelWarn    Level = "warn"    // the election works, but not as well as it could
	LevelFail    Level = "fail"    // the election does not work, or is not safe
)

// rank orders the levels.
var rank = map[Level]int{LevelOK: 0, LevelUnknown: 1, LevelWarn: 2, LevelFail: 3}

// Worse reports whether l is worse than another level.
func (l Level) Worse(than Level) bool { return rank[l] > rank[than] }

// Worst returns the worst level among the findings; LevelOK when there are none.
func Worst(findings []Finding) Level {
	worst := LevelOK
	for _, f := range findings {
		if f.Level.Worse(worst) {
			worst = f.Level
		}
	}
	return worst
}

// Finding is the outcome of one check.
type Finding struct {
	Node   string `json:"node,omitempty"` // empty: the finding is about all nodes
	Check  string `json:"check"`          // what was checked, one word
	Level  Level  `json:"level"`
	Found  string `json:"found"`            // in words
	Advice string `json:"advice,omitempty"` // what to do
}

// causes are the checks whose findings explain an incident; they rank in this order before all
// others. lasting are checks of the configuration, which rank last: their findings are seldom new.
var (
	causes  = []string{"leaders", "locks", "nodes", "same-server", "lock", "majority", "rights", "refuses", "reach", "trace", "vote", "pause", "ids", "candidates", "lease", "flapping", "leader", "able"}
	lasting = []string{"persistence", "eviction", "failover", "version"}
)

// First returns the finding to act on first: of the worst level, and of these the one that explains
// most. If several nodes have it, Found names them. ok is false if no finding is a warning or a
// failure.
func First(findings []Finding) (first Finding, ok bool) {
	rank := func(f Finding) int {
		if i := slices.Index(causes, f.Check); i >= 0 {
			return i
		}
		if slices.Contains(lasting, f.Check) {
			return len(causes) + 1
		}
		return len(causes)
	}
	first.Level = LevelUnknown
	for _, f := range findings {
		if f.Level.Worse(first.Level) || f.Level == first.Level && ok && rank(f) < rank(first) {
			first, ok = f, true
		}
	}
	if ok && first.Node != "" && !strings.Contains(first.Found, first.Node) {
		var nodes []string
		for _, f := range findings {
			if f.Check == first.Check && f.Level == first.Level && f.Found == first.Found {
				nodes = append(nodes, f.Node)
			}
		}
		first.Found = list(nodes) + ": " + first.Found
	}
	return first, ok
}
