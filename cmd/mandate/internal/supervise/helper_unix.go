//go:build unix

package supervise

import (
	"fmt"
	"os/exec"
)

// helpers are those that this program runs under their names; nil before Dispatch. It never
// changes later.
var helpers map[string]func()

// helper is the command that starts one.
func helper(name string) (*exec.Cmd, error) {
	if helpers[name] == nil {
		return nil, fmt.Errorf("%s: this program does not run it under that name", name)
	}
	self, err := selfPath()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self) //nolint:noctx // a helper ends with what it is there for
	cmd.Args = []string{name}
	return cmd, nil
}
