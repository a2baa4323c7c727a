package electorprom_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// Prometheus' own promtool reads the rules, and plays incidents against them.
func TestAlertsByPromtool(t *testing.T) {
	servertest.NeedProgram(t, "apt-get install prometheus", "promtool")
	files, err := filepath.Glob("testdata/alerts_*test.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no incidents: %v", err)
	}
	for _, args := range [][]string{{"check", "rules", "../../docs/alerts.yml"}, append([]string{"test", "rules"}, files...)} {
		if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
