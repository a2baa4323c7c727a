// Package module guards what package elector exports for other packages of this module, and not for
// users: whoever has the nodes of a Quorum can write to a lock. Only packages that may import this one
// can name the type of the argument. .golangci.yml lists them.
package module

// Only is the argument of a function that is for this module only.
type Only struct{ _ struct{} }
