package health

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// FileAge returns a probe that passes while the modification time of the file at path is
// younger than limit: a heartbeat for work in any language (`touch`). A file that doesn't
// exist fails, and so does one dated more than limit in the future, which a stepped clock can
// leave behind and which would look fresh for as long. With a limit of zero or less it
// never passes.
//
// A file that is too old is [Definite], as with a Heartbeat: the limit is the threshold. It compares
// wall clocks (a step forward by the limit fails it until the next touch), and for a network file
// system those of two machines. When only
// the leader touches the file it is a work probe; give the work a start grace to touch it.
func FileAge(path string, limit time.Duration) Probe {
	return Func(func(context.Context) error {
		if limit <= 0 {
			return fmt.Errorf("the limit for the age of %s is %s: give one above zero", path, limit)
		}
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %w", path, os.ErrNotExist) // "file does not exist"
		}
		if err != nil {
			return err
		}
		age := time.Since(info.ModTime())
		switch {
		case age >= limit:
			return Definite(fmt.Errorf("%s has not changed for %s (bound %s)", path, short(age), limit))
		case age <= -limit:
			return fmt.Errorf("%s is dated %s in the future: check the clocks", path, short(-age))
		}
		return nil
	})
}

// Disk returns a probe that passes when a file of 4 KiB can be written in the directory dir, synced
// and deleted: it notices a disk that is full, read-only, broken or hangs. As a candidate probe it keeps
// away who could not work; as a work probe it replaces a leader whose lease goes on and whose data don't.
//
// A hung disk can't be interrupted: Check returns as soon as ctx has ended, and while the call hangs
// further ones fail at once, as with [FromCheck]. The one goroutine and thread that are left behind also keep
// the process from exiting until the disk answers. Each run costs a sync of the file system; a process
// that is killed in one leaves a file .mandate-probe-* behind.
//
// The error names dir and what failed. Where no file can ever be made, it is os.ErrNotExist,
// os.ErrPermission or syscall.ENOTDIR.
func Disk(dir string) Probe {
	return FromCheck(func() error {
		err := writeIn(dir)
		// Without the name of the file: the text of a failure that lasts must stay the same.
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			return fmt.Errorf("%s: %s: %w", dir, at.Op, at.Err)
		}
		return err
	})
}

// block fills a block of common file systems: the first bytes of a file may have room in its inode.
var block = bytes.Repeat([]byte("mandate\n"), 512)

func writeIn(dir string) error {
	if dir == "" { // os.CreateTemp would use the system's temporary directory
		return errors.New("the disk probe has no directory")
	}
	f, err := os.CreateTemp(dir, ".mandate-probe-")
	if err != nil {
		return err
	}
	_, err = f.Write(block)
	return cmp.Or(err, f.Sync(), f.Close(), os.Remove(f.Name())) // each is called, also after an error
}
