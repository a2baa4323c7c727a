//go:build !race

package electortest

func oneProcessor() (restore func()) { return func() {} }
