package health

import (
	"context"
	"errors"
	"fmt"
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
