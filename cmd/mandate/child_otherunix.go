//go:build unix && !linux

package main

import (
	"os"
	"syscall"
)

func selfPath() (string, error) { return os.Executable() }

// dieWithParent: only Linux has it; the guard does it alone here.
func dieWithParent(*syscall.SysProcAttr) {}

// allZombies can't be told here without help from the C library.
func allZombies(int) bool { return false }
