package protocol

import (
	"encoding/json"
	"strings"
	"time"
)

// PauseNote is the value of a pause's key: who paused the election, since when and why.
type PauseNote struct {
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// ParsePauseNote parses the value of the key. A value in any other format pauses the election as
// well, and is shown as the reason.
func ParsePauseNote(value string) (n PauseNote) {
	if strings.HasPrefix(value, "{") && len(value) <= MaxMessage && json.Unmarshal([]byte(value), &n) == nil {
		n.By, n.Reason = Clip(n.By, MaxReason), Clip(n.Reason, MaxReason)
		return n
	}
	return PauseNote{Reason: Clip(value, MaxReason)}
}

// Encode returns the value of the key.
func (n PauseNote) Encode() string {
	b, err := json.Marshal(n)
	if err != nil { // strings, and a time of this century
		panic("protocol: a pause that can't be encoded: " + err.Error())
	}
	return string(b)
}

// String describes who paused the election and why. It is never empty.
func (n PauseNote) String() string {
	switch {
	case n.By == "" && n.Reason == "":
		return "no reason given"
	case n.By == "":
		return n.Reason
	case n.Reason == "":
		return "by " + n.By
	default:
		return "by " + n.By + ": " + n.Reason
	}
}
