// Package rivals measures handovers beside those of other libraries, and beside floors:
// the plainest programs that hand a lock over. All are measured in one run on one
// redis-server. It is a module of its own, so that no program that imports elector gets them.
package rivals
