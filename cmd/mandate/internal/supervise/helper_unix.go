//go:build unix

package supervise

import (
	"fmt"
	"os/exec"
)

// helpers maps the names of the helpers of this program to their main functions. It is nil before
// Dispatch and does not change later.
var helpers map[string]func()

// helper returns the command that starts a helper.
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
