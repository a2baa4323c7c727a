//go:build unix

package supervised

import (
	"errors"
	"syscall"
)

func prepare(fd int, inode uint64) error {
	if err := check(fd, inode); err != nil {
		return err
	}
	syscall.CloseOnExec(fd)
	return syscall.SetNonblock(fd, true)
}

// check returns an error unless fd is the pipe with that inode.
func check(fd int, inode uint64) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFIFO || uint64(st.Ino) != inode { //nolint:unconvert // its type differs between systems
		return errors.New("not the supervisor's pipe")
	}
	return nil
}

// writeNow returns false if the pipe is full. A pipe that no process reads has no supervisor.
func writeNow(fd int, line []byte) bool {
	_, err := syscall.Write(fd, line)
	return err == nil || errors.Is(err, syscall.EPIPE)
}
