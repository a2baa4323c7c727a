package doctor

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
