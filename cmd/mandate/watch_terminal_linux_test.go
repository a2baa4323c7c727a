package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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

// On a terminal watch draws, and leaves the terminal as it was.
func TestWatchOnATerminal(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "mandate") // the test binary stands in for the program by its name
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	keyboard, screen := openTerminal(t)
	cmd := exec.CommandContext(ctx, link, "--redis", "redis://127.0.0.1:1", "watch", "orders")
	cmd.Env = append(os.Environ(), "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	screen.Close() // so that the end of the program is that of what it draws
	var drawn strings.Builder
	const verdict = "no majority of the Redis nodes answers"
	for part, asked := make([]byte, 4096), false; ; {
		n, err := keyboard.Read(part)
		drawn.Write(part[:n])
		if !asked && strings.Contains(drawn.String(), verdict) {
			asked = true
			_ = cmd.Process.Signal(syscall.SIGINT)
		}
		if err != nil {
			break
		}
	}
	_ = cmd.Wait()
	for _, want := range []string{"\x1b[?1049h\x1b[?25l", verdict, "\x1b[?25h\x1b[?1049l"} {
		if !strings.Contains(drawn.String(), want) {
			t.Errorf("no %q in %q", want, drawn.String())
		}
	}
}
