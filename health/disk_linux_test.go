package health

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// Disks that are full, read-only or broken fail, each by the kernel's own reason, and pass once there is room again.
func TestDiskThatIsFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skip("can't mount here: ", err)
	}
	defer syscall.Unmount(dir, 0)
	p := Disk(dir)
	must(t, p.Check(t.Context()))
	full := filepath.Join(dir, "full")
	must(t, os.WriteFile(full, make([]byte, 16<<10), 0o600))
	if err := p.Check(t.Context()); !errors.Is(err, syscall.ENOSPC) || err.Error() != dir+": write: no space left on device" {
		t.Error("full: ", err)
	}
	if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
		t.Errorf("left on the full disk: %v, %v", left, err)
	}
	must(t, os.Remove(full))
	if err := p.Check(t.Context()); err != nil {
		t.Error("with room again: ", err)
	}
	must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	if err := p.Check(t.Context()); !errors.Is(err, syscall.EROFS) || errors.Is(err, os.ErrPermission) {
		t.Error("read-only: ", err)
	}
}

// A disk that hangs: each check fails in time, one goroutine waits for it however often it is checked, and the disk
// passes once it answers. The kernel holds up everyone who opens a file in a directory that a scanner watches, until
// the scanner allows it.
func TestDiskThatHangs(t *testing.T) {
	dir := t.TempDir()
	const classContent, closeOnExec, add, openPerm, onChild = 4, 1, 1, 0x10000, 0x08000000
	scanner, _, errno := syscall.Syscall(syscall.SYS_FANOTIFY_INIT, classContent|closeOnExec, 0, 0)
	if errno != 0 {
		t.Skip("can't hold up files here: ", errno)
	}
	path, err := syscall.BytePtrFromString(dir)
	must(t, err)
	if _, _, errno := syscall.Syscall6(syscall.SYS_FANOTIFY_MARK, scanner, add, openPerm|onChild, 0, uintptr(unsafe.Pointer(path)), 0); errno != 0 {
		syscall.Close(int(scanner))
		t.Skip("can't hold up files here: ", errno)
	}
	allow := sync.OnceFunc(func() { syscall.Close(int(scanner)) })
	defer time.AfterFunc(10*time.Second, allow).Stop()
	p := Disk(dir)
	check := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return p.Check(ctx)
	}
	wantMessage(t, check(), "no answer")
	before := runtime.NumGoroutine()
	for range 100 {
		wantMessage(t, check(), "still hangs, not repeated")
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
	allow()
	for end := time.Now().Add(time.Minute); check() != nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if err := p.Check(t.Context()); err != nil {
		t.Error("it hangs no more: ", err)
	}
}
