//go:build !race

package quorum

func oneP() (restore func()) { return func() {} }
