//go:build unix

package supervise

import (
	"maps"
	"os"
	"path/filepath"
)

// Dispatch runs the helper whose name this process was started under, if any, and reports whether
// it did. others are the caller's own helpers. A program must call Dispatch before anything else,
// also in the TestMain of a test binary: without it, a process started as a helper would run the
// program (for example all tests, which start helpers again). Therefore a helper can only be
// started after Dispatch has registered it.
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
