// Package callback calls functions of the library's users.
package callback

import (
	"errors"
	"fmt"
)

var errGoexit = errors.New("runtime.Goexit was called")

// Call runs f on a goroutine of its own, and blocks until f has ended. It returns f's error, or one
// that says that f has panicked or called runtime.Goexit, which must end neither the process nor the
// caller's goroutine.
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
