//go:build !unix

package main

import (
	"errors"
	"os"
	"time"
)

// canRun: running a command safely needs process groups. The other commands of
// mandate work here.
func canRun() error { return errors.New("mandate run works on Unix only") }

// What follows only lets the rest compile.

const (
	guardName   = "mandate-guard"
	starterName = "mandate-start"
)

func guardMain()   {}
func starterMain() {}

var errStart = errors.New("can't start a process")

type child struct {
	pid    int
	exited chan struct{}
	state  *os.ProcessState
	guard  struct{ gone chan struct{} }
	until  time.Time
}

func startChild(string, []string, []string, time.Time) (*child, error) { return nil, canRun() }

func (c *child) tellGuard(time.Time)                              {}
func (c *child) dismissGuard()                                    {}
func (c *child) killedByGuard() bool                              { return false }
func (c *child) hasExited() bool                                  { return true }
func (c *child) gone() bool                                       { return true }
func (c *child) terminate()                                       {}
func (c *child) killGroup()                                       {}
func (c *child) awaitGone(<-chan time.Time, <-chan struct{}) bool { return true }
