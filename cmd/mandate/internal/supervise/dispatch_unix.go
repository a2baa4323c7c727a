//go:build unix

package supervise

import (
	"maps"
	"os"
	"path/filepath"
)

// Dispatch runs the helper by whose name this process was started, and reports whether it was one.
// others are the caller's own. A program calls it before all else, the TestMain of a test binary too:
// one that didn't would do in a helper's place whatever it does (run all tests, which
// start helpers). So a program starts no helper that it has not named here.
func Dispatch(others map[string]func()) (was bool) {
	all := map[string]func(){GuardName: GuardMain, ReaperName: ReaperMain}
	maps.Copy(all, others)
	if run := all[filepath.Base(os.Args[0])]; run != nil {
		run()
		return true
	}
	helpers = all
	return false
}
