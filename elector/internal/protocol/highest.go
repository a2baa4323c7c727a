package protocol

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/semver"
)

// Highest is what the version's key holds: the highest version that has led, as text; or, as
// JSON, also that an operator lets older ones lead again. Claims and renewals of candidates that
// refuse downgrades write it.
type Highest struct {
	Version string    `json:"version"`
	Allow   string    `json:"allow,omitempty"` // the lowest that may lead; AnyVersion; empty: none below Version
	By      string    `json:"by,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// AnyVersion allows all.
const AnyVersion = "any"

// ParseHighest reads the value of the key. ok is false when no version is there: nothing, or what
// neither a candidate nor an operator wrote. That keeps no candidate from leading.
func ParseHighest(value string) (h Highest, ok bool) {
	if len(value) > maxHighest {
		return Highest{}, false
	}
	if h.Version = value; strings.HasPrefix(value, allowed) {
		if json.Unmarshal([]byte(value), &h) != nil {
			return Highest{}, false
		}
		h.By, h.Reason = Clip(h.By, MaxReason), Clip(h.Reason, MaxReason)
		if h.Allow != AnyVersion && !semver.Valid(h.Allow) {
			h.Allow = ""
		}
	}
	if !semver.Valid(h.Version) || len(h.Version) > MaxAdvertise {
		return Highest{}, false
	}
	return h, true
}

// Encode is the value of the key.
func (h Highest) Encode() string {
	if h.Allow == "" {
		return h.Version
	}
	b, err := json.Marshal(h)
	if err != nil { // strings, and a time of this century
		panic("protocol: a version that can't be encoded: " + err.Error())
	}
	return string(b)
}

// Admits reports whether a candidate of that version may lead, with this value of the key, and what
// is to be there once it does: an operator's permission lasts until an older version has led, or a newer one.
func Admits(value, version string) (ok bool, next string) {
	h, known := ParseHighest(value)
	order, _ := semver.Compare(version, h.Version)
	switch {
	case !known || order > 0:
		return true, version
	case order == 0 && h.Allow != "":
		return true, value
	case order == 0 || h.Allow == AnyVersion:
		return true, version
	}
	below, allows := semver.Compare(version, h.Allow)
	return allows && below >= 0, version
}
