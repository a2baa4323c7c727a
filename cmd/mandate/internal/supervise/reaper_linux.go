package supervise

import "syscall"

// selfPath returns the path of this program, even after a deploy has replaced its file.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// dieWithParent makes the kernel kill the command when the reaper is killed; mandate adopts its
// other descendants.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// awaitGroup does not wait: the reaper adopts all orphans.
func awaitGroup(int) {}
