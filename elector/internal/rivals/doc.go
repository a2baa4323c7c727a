// Package rivals measures hand-overs beside those of other libraries, in one run on one
// redis-server: a module of its own, so that nobody who imports elector gets them.
package rivals
