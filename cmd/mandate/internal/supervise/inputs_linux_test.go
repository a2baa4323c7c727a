package supervise

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mandate-dev/mandate/elector/supervisor"
)

// The command starts with what this process was started with, whatever the runtime, mandate or its helper has changed
// since for itself: signals that are ignored (make, for one, hands down an ignored signal 32), the soft limit of open
// files, the environment, and no file but three. RLIMIT_LOCKS is the mark.
func TestCommandInherits(t *testing.T) {
	var was syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) })
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 123, Max: was.Max}))
	t.Chdir(t.TempDir())
	defer syscall.Umask(syscall.Umask(0o27))
	t.Setenv("MANDATE_REDIS", "redis://:secret@127.0.0.1")
	h := newHelper(t)
	const show = `exec 2>&1; pwd; umask; (cd /proc/$$/fd; echo *); grep -v 'file locks' /proc/self/limits
grep -E '^(Sig(Ign|Blk)|Cap|NoNewPrivs|Seccomp|Cpus_allowed|Uid|Gid|Groups)' /proc/self/status
tr '\0' '\n' </proc/self/environ | grep -vE '^(SCRIPT|PIDS|PWD)=' | sort`
	want, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", show).Output()
	must(t, err)
	file := filepath.Join(t.TempDir(), "shown")
	p, _ := h.run(t, 0, "exec >"+file+"; "+show)
	<-p.Exited
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
		t.Errorf("the command has\n%s\nwant\n%s\n(%v)", got, want, err)
	}
	for _, of := range []string{"environ", "cmdline"} {
		if text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(h.cmd.Process.Pid), of)); err != nil || strings.Contains(string(text), "secret") {
			t.Errorf("the helper's %s: %q, %v", of, text, err)
		}
	}
	if name, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(h.cmd.Process.Pid), "comm")); string(name) != HelperName+"\n" {
		t.Errorf("the helper is called %q", name)
	}
}

// What the helper connects with is what mandate connects with, and passwords stay out of its environment.
func TestHelperEnv(t *testing.T) {
	inherited := []string{
		"SSL_CERT_FILE=/ca.pem", "SSL_CERT_DIR=/etc/certs", "GODEBUG=netdns=go", "GOMAXPROCS=1", "GOMEMLIMIT=64MiB", "GOTRACEBACK=all",
		"LOCALDOMAIN=example.com", "RES_OPTIONS=timeout:1", "TZ=Europe/Zurich",
	}
	others := []string{
		"GOOGLE_API_KEY=secret", "GOOGLE_APPLICATION_CREDENTIALS=/key.json", "GODADDY_SECRET=secret", "MANDATE_REDIS=redis://:secret@127.0.0.1",
		"MANDATE_REDIS_PASSWORD_FILE=/p", "MANDATE_SUPERVISOR_FD=3:1", "HTTPS_PROXY=http://user:secret@proxy", "PATH=/bin", "GO", "",
	}
	if got := helperEnv(slices.Concat(others, inherited, others)); !slices.Equal(got, inherited) {
		t.Errorf("the helper gets %q, want %q", got, inherited)
	}
}

// A probe's shell has neither the variable of mandate's own supervisor nor the pipe, though it is started before the
// electors take them.
func TestProbeHasNoSupervisor(t *testing.T) {
	fd, err := syscall.Dup(2) // not close-on-exec, as what was inherited
	must(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	t.Setenv(supervisor.Variable, fmt.Sprintf("%d:1", fd))
	ctx, end := context.WithTimeout(t.Context(), waitLimit)
	defer end()
	if err := new(Prober).Probe(fmt.Sprintf(`env | grep SUPERVISOR; [ -e /proc/$$/fd/%d ] && echo open; exit 3`, fd)).Check(ctx); err == nil || err.Error() != "command sh: exit code 3" {
		t.Error(err)
	}
}

// A hard limit of file locks is noticed, which this process may not raise: commands can't be told apart then.
func TestUnmarked(t *testing.T) {
	if os.Getenv("UNMARKED") == "" {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", `ulimit -x 100; UNMARKED=yes exec "$0" -test.run='^TestUnmarked$'`, os.Args[0])
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	var caps [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	must(t, unix.Capget(&header, &caps[0]))
	may := caps[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
	if h, err := NewHelper(); err != nil || may != (h.Unmarked == nil) || may != (markOf(os.Getpid()) == mark(os.Getpid(), 0)) {
		t.Errorf("may raise it: %v; %v, %v", may, err, h.Unmarked)
	}
}
