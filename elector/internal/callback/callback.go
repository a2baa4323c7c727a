// Package callback calls functions that users of the library have written.
package callback

import (
	"errors"
	"fmt"
)

var errGoexit = errors.New("runtime.Goexit was called")

// Call blocks until f has returned, on a goroutine of its own. The error is f's, or says that f has panicked or called
// runtime.Goexit: what f does must end neither the process nor what waits for it.
func Call(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v", v)
			}
			done <- err
		}()
		err = f()
	}()
	return <-done
}
