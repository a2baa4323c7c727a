// Package ungranted lets electortest make a term that no election has granted, without an
// exported function for that. Package elector sets New.
package ungranted

// New returns a valid *elector.Term with that token. end ends the term for a reason of package
// elector; a second call of end does nothing.
var New func(token uint64) (term any, end func(reason string))
