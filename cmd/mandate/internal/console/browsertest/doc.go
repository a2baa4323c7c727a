// Package browsertest looks at the console in a real browser. It is a module of
// its own, so that a program that imports mandate does not get a browser driver into
// their module graph.
package browsertest
