package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// openTerminal makes a terminal of 80 columns and 24 lines: what the program draws on
// screen comes out of keyboard, as from the far end of a cable.
func openTerminal(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(err)
	t.Cleanup(func() { keyboard.Close() })
	fd := int(keyboard.Fd())
	must(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(err)
	must(unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	screen, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(err)
	t.Cleanup(func() { screen.Close() })
	return keyboard, screen
}

// onTerminal runs the program on a terminal of its own, with hold on what it draws: react is
// called with all of it after each piece. It returns all, and the exit code.
func onTerminal(t *testing.T, react func(drawn string, keyboard *os.File, p *os.Process), args ...string) (drawn string, code int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "mandate") // the test binary stands in for the program by its name
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scriptTimeout)
	defer cancel()
	keyboard, screen := openTerminal(t)
	cmd := exec.CommandContext(ctx, link, args...)
	cmd.Env = append(os.Environ(), "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	screen.Close() // so that the end of the program is that of what it draws
	var all strings.Builder
	for part := make([]byte, 4096); ; {
		n, err := keyboard.Read(part)
		all.Write(part[:n])
		react(all.String(), keyboard, cmd.Process)
		if err != nil {
			break
		}
	}
	_ = cmd.Wait()
	return all.String(), cmd.ProcessState.ExitCode()
}

// On a terminal a leader is not taken away by a slip of the finger.
func TestResignAsksOnATerminalReal(t *testing.T) {
	servertest.NeedRedis(t)
	url := servertest.Redis(t).URL()
	a, _ := campaign(t, url, "e", "a", func(cfg *elector.Config) { cfg.Cooldown = time.Minute })
	servertest.Eventually(t, time.Minute, "a leads", a.IsLeader)
	campaign(t, url, "e", "b")
	servertest.Eventually(t, time.Minute, "b follows", func() bool {
		all, _ := a.Election().Candidates(t.Context())
		return slices.ContainsFunc(all, func(c elector.CandidateStatus) bool { return c.ID == "b" && c.Role == elector.RoleFollowing })
	})
	answer := func(key string) func(string, *os.File, *os.Process) {
		answered := false
		return func(drawn string, keyboard *os.File, _ *os.Process) {
			if !answered && strings.Contains(drawn, "[y/N]") {
				answered = true
				_, _ = keyboard.WriteString(key)
			}
		}
	}
	drawn, code := onTerminal(t, answer("\n"), "--redis", url, "resign", "e")
	if code != exitFailed || !strings.Contains(drawn, "Make a step down from e? Then one of these leads: b.") || !strings.Contains(drawn, "nothing was done") {
		t.Errorf("code %d: %s", code, drawn)
	}
	drawn, code = onTerminal(t, answer("\x04"), "--redis", url, "resign", "e") // Ctrl-D
	if lines := strings.Split(drawn, "\n"); code != exitFailed || !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "mandate resign: not confirmed") }) {
		t.Errorf("code %d: %s", code, drawn)
	}
	if drawn, code = onTerminal(t, answer("y\n"), "--redis", url, "resign", "e"); code != 0 || !strings.Contains(drawn, "b leads, token") {
		t.Errorf("code %d: %s", code, drawn)
	}
	if drawn, code = onTerminal(t, answer(""), "--redis", url, "resign", "e", "--yes", "--force"); code != 0 || strings.Contains(drawn, "[y/N]") {
		t.Errorf("code %d: %s", code, drawn)
	}
}
