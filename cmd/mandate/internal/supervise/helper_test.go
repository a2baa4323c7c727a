//go:build unix

package supervise

import "testing"

// A program that does not run a helper under its name must not be started by that name: this test
// binary would run all tests, each of which would start one more.
func TestUnknownHelperIsNotStarted(t *testing.T) {
	for name, known := range map[string]bool{GuardName: true, ReaperName: true, ReleaserName: true, "mandate-other": false} {
		cmd, err := helper(name)
		if known != (err == nil) || known != (cmd != nil) {
			t.Errorf("%s: %v, %v", name, cmd, err)
		}
	}
	defer func(was map[string]func()) { helpers = was }(helpers)
	helpers = nil // TestMain has forgotten
	if _, err := helper(GuardName); err == nil {
		t.Error("a program that runs no helpers starts one")
	}
}
