//go:build !linux

package supervise

import (
	"errors"
	"io"
)

// NewReleaser returns an error: without subreapers no process can know that everything a command
// has started is gone, so a crash costs the rest of the lease.
func NewReleaser() (*Releaser, error) { return nil, errors.ErrUnsupported }

// Pipe returns an empty name.
func (*Releaser) Pipe() string { return "" }

// Start returns an error.
func (*Releaser) Start(any) error { return errors.ErrUnsupported }

// Gone returns nil, which is never closed.
func (*Releaser) Gone() <-chan struct{} { return nil }

// Releasing returns false: whether mandate is dead is unknown.
func Releasing(any, func(io.Reader) error) bool { return false }

// Gone recognizes no line.
func Gone([]byte) (term string, ok bool) { return "", false }
