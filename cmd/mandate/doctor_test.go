package main

import (
	"errors"
	"testing"

	"github.com/mandate-dev/mandate/elector/doctor"
)

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
