package main

import (
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
