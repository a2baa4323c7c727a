//go:build !linux

package supervise

import (
	"errors"
	"io"
)

// NewReleaser can't: without subreapers no process can know that everything a command has
// started is gone, so a crash costs the rest of the lease.
func NewReleaser() (*Releaser, error) { return nil, errors.ErrUnsupported }

// Pipe leads nowhere.
func (*Releaser) Pipe() string { return "" }

// Start can't.
func (*Releaser) Start(any) error { return errors.ErrUnsupported }

// Gone is never closed.
func (*Releaser) Gone() <-chan struct{} { return nil }

// Releasing never knows.
func Releasing(any, func(io.Reader) error) bool { return false }

// Gone reads nothing.
func Gone([]byte) (term string, ok bool) { return "", false }
