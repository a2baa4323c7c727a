package elector

import (
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// Nodes keep different versions after a claim that was lost. An operator must be shown the one below which
// candidates are refused, or could not allow them again.
func TestVersionThatAMajorityKeeps(t *testing.T) {
	const allows = `{"version":"v2.0.0","allow":"v1.0.0","by":"ada"}`
	for name, c := range map[string]struct {
		values           []string
		version, allowed string
	}{
		"all the same":                  {[]string{"v2.0.0", "v2.0.0", "v2.0.0"}, "v2.0.0", ""},
		"none":                          {[]string{"", "", ""}, "", ""},
		"one node":                      {[]string{"v2.0.0", "", ""}, "", ""},
		"a claim was lost":              {[]string{"v3.0.0", "v2.0.0", ""}, "v2.0.0", ""},
		"by number, not by text":        {[]string{"v10.0.0", "v9.0.0", "v2.0.0"}, "v9.0.0", ""},
		"allowed":                       {[]string{allows, allows, "v3.0.0"}, "v2.0.0", "v1.0.0"},
		"allowed on one node":           {[]string{allows, "v2.0.0", "v2.0.0"}, "v2.0.0", ""},
		"what no candidate has written": {[]string{"latest", "v2.0.0", "{"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			views := make([]registry.View, len(c.values))
			for i, v := range c.values {
				views[i].Version = v
			}
			var st Status
			if st.noteVersions(views, 2); st.Version != c.version || st.AllowOlder != c.allowed {
				t.Errorf("version %q, allowed %q; want %q, %q", st.Version, st.AllowOlder, c.version, c.allowed)
			}
		})
	}
}
