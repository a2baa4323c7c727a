package protocol

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/mandate-dev/mandate/elector/internal/setting"
)

// The maximum lengths, in bytes, of texts in keys, lock values and messages.
const (
	MaxName      = 200 // of an election, a prefix, a candidate
	MaxAdvertise = 256
	MaxReason    = 500      // an operator's, for a pause or a step-down
	MaxDetail    = 1000     // of texts from elsewhere: a probe, a child
	MaxMessage   = 16 << 10 // more than any message of ours needs
)

// CheckWord returns an error unless s, the value of that field, can be part of a key and of the
// one-line lock value. most is its maximum length in bytes; without lists characters that are not
// allowed.
func CheckWord(field, s string, most int, without string) error {
	switch {
	case s == "":
		return setting.Errorf(field, " is empty: give it a value")
	case len(s) > most:
		return setting.Errorf(field, " is %d bytes long: at most %d", len(s), most)
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar }):
		return setting.Errorf(field, " is %q: spaces and control characters are not allowed", s)
	case strings.ContainsAny(s, without):
		return setting.Errorf(field, " is %q: none of the characters %s is allowed", s, without)
	}
	return nil
}

// Clip shortens s to a length of most bytes. A shortened text shares no memory with s.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const more = "..."
	return strings.ToValidUTF8(s[:most-len(more)], "") + more
}

// Quoted returns text from elsewhere in a form that can be printed: escaped and shortened.
func Quoted(s string) string {
	const longest = 60
	if len(s) <= longest {
		return strconv.QuoteToASCII(s)
	}
	return fmt.Sprintf("%s... (%d bytes)", strconv.QuoteToASCII(s[:longest]), len(s))
}

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
func (n PauseNote) Encode() string { return string(Encode(n)) }

// Encode returns v as JSON, which has only strings, finite numbers and times of this century.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("protocol: a message that can't be encoded: " + err.Error())
	}
	return b
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
