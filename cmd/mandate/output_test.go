package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// What --json prints is what was meant, and holds nothing that a terminal obeys.
func TestJSONIsFitForTerminals(t *testing.T) {
	hostile := "a\u009b2J\u202eb\u2066c\u200bd\x7fe\x1bfg\U000e0001h\u0085i\u2028j é 漢 🙂"
	var st elector.Status
	st.Leader = &elector.Leader{Candidate: hostile, Token: 1}
	out := map[string]func(a *app) error{
		"status": func(a *app) error {
			r := reportOf(st, elector.CandidateStatus{ID: hostile})
			return a.printStatus(&r, format{json: true})
		},
		"history": func(a *app) error {
			return a.printHistory(history{Terms: []elector.TermRecord{{Candidate: hostile}}}, format{json: true}, true, "", nil)
		},
		"ls":     func(a *app) error { return a.printElections([]report{reportOf(st)}, format{json: true}) },
		"doctor": func(a *app) error { return a.printFindings([]doctor.Finding{{Found: hostile}}, true, true) },
		"watch": func(a *app) error {
			return output.JSONLine(a.stdout, elector.Event{Candidate: hostile})
		},
		"transfer": func(a *app) error {
			return a.printHandover(elector.Handover{From: *st.Leader}, errors.New("x"), true)
		},
		"pause": func(a *app) error { return a.printPause(nil, pauseJSON{Reason: hostile}, true) },
	}
	for name, print := range out {
		var b bytes.Buffer
		if err := print(&app{stdout: &b, stderr: &b}); err != nil {
			t.Fatal(err)
		}
		for _, r := range b.String() {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%s prints %U: %q", name, r, b.String())
				break
			}
		}
		var back any
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Errorf("%s: %v: %s", name, err, b.String())
		}
		var again bytes.Buffer
		enc := json.NewEncoder(&again)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(back)
		want, _ := json.Marshal(hostile)
		if !strings.Contains(again.String(), string(want)) {
			t.Errorf("%s: %s does not hold %s", name, again.String(), want)
		}
		if !strings.Contains(b.String(), "é 漢 🙂") {
			t.Errorf("%s escapes what is harmless: %s", name, b.String())
		}
	}
}
