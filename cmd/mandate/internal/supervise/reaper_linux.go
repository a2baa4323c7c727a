package supervise

import "syscall"

// selfPath names this very program, also after a deploy has replaced the file.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// dieWithParent is for the case that the reaper itself is killed: the command is
// killed with it, and mandate adopts the rest.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// awaitGroup has nothing to wait for: the reaper adopts all orphans.
func awaitGroup(int) {}
