//go:build !race

package elector_test

func oneP() (restore func()) { return func() {} }
