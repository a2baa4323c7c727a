//go:build unix && !linux

package supervise

import (
	"errors"
	"io"
	"os"
	"syscall"
)

func newCgroup() (cgroup, error) { return "", errors.New("only Linux has cgroups") }

func (c cgroup) enter(*syscall.SysProcAttr) (func(), error) { return nil, syscall.ENOSYS }

func (c cgroup) populated() bool { return false }

func (c cgroup) events() *os.File { return nil }

func hasMembers(io.ReaderAt) bool { return false }

func (c cgroup) members() []Living { return nil }

func (c cgroup) kill() {}

func (c cgroup) remove() bool { return false }
