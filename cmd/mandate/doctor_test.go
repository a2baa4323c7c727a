package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// The first lines name every node of which the finding is true: who mends the first one only
// would be called again.
func TestDoctorHeadlineNamesAllNodes(t *testing.T) {
	const advice = "set appendonly yes"
	of := func(node, check, found string) doctor.Finding {
		return doctor.Finding{Node: node, Check: check, Level: doctor.LevelWarn, Found: found, Advice: advice}
	}
	got := doctorHeadline(output.New(io.Discard), []doctor.Finding{
		of("n1:1", "persistence", "no append-only file"), of("n2:1", "persistence", "no append-only file"), of("n2:1", "eviction", "no append-only file"),
		of("n3:1", "persistence", "never synced"), {Node: "n4:1", Check: "persistence", Level: doctor.LevelOK, Found: "no append-only file"},
	})
	if want := "problem     n1:1, n2:1: no append-only file\nnext        set appendonly yes\n"; strings.Join(got, "\n") != want {
		t.Errorf("%q", got)
	}
}

// What is wrong with the settings is named before how often the leadership was lost for it.
func TestDoctorNamesCausesBeforeTheirEffects(t *testing.T) {
	flapping := doctor.Finding{Check: "flapping", Level: doctor.LevelWarn, Found: "3 terms of the last 10 min ended unwanted"}
	for _, cause := range []string{"ids", "candidates", "lease", "pause", "rights", "reach"} {
		got := doctorHeadline(output.New(io.Discard), []doctor.Finding{flapping, {Check: cause, Level: doctor.LevelWarn, Found: "the cause"}})
		if got[0] != "problem     the cause" {
			t.Errorf("%s: %q", cause, got)
		}
	}
}

// A name that is not known has the exit code of every other command, unless Redis does not work.
func TestDoctorVerdict(t *testing.T) {
	warn, fail := doctor.Finding{Check: "persistence", Level: doctor.LevelWarn}, doctor.Finding{Check: "majority", Level: doctor.LevelFail}
	trace := doctor.Finding{Check: "trace", Level: doctor.LevelWarn}
	for _, c := range []struct {
		findings []doctor.Finding
		want     int
	}{
		{[]doctor.Finding{{Check: "reach", Level: doctor.LevelOK}}, 0},
		{[]doctor.Finding{warn}, exitWarnings},
		{[]doctor.Finding{warn, trace}, exitNoLeader},
		{[]doctor.Finding{warn, trace, fail}, exitFailures},
	} {
		var exit *exitError
		got := 0
		if errors.As(verdict(c.findings), &exit) {
			got = exit.code
		}
		if got != c.want {
			t.Errorf("%+v: exit code %d, want %d", c.findings, got, c.want)
		}
	}
}
