package protocol

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/semver"
)

// Highest is the value of the version's key: the highest version that has led, as text; or JSON,
// if an operator has also allowed older versions to lead again. Claims and renewals of candidates
// that refuse downgrades write it.
type Highest struct {
	Version string    `json:"version"`
	Allow   string    `json:"allow,omitempty"` // the lowest version that may lead, or AnyVersion; empty: none below Version
	By      string    `json:"by,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// AnyVersion is the Highest.Allow that allows all versions.
const AnyVersion = "any"

// ParseHighest parses the value of the key. ok is false if it holds no version: it is empty, or
// neither a candidate nor an operator wrote it. Such a value prevents no candidate from leading.
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

// Encode returns the value of the key.
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

// Admits reports whether a candidate of that version may lead, given the value of the key. next is
// the value to write once it leads: an operator's permission lasts until an older or a newer
// version has led.
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
