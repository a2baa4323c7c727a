//go:build !race

package testredis

func oneP() (restore func()) { return func() {} }
