// Package ungranted lets electortest make a term that no election has granted, without an
// exported way to do so: package elector fills it in.
package ungranted

// New makes a valid *elector.Term with that token. end ends it for a reason of package
// elector; a second call does nothing.
var New func(token uint64) (term any, end func(reason string))
