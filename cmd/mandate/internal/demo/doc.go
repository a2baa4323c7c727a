// Package demo is `mandate demo`: three embedded Redis nodes and three candidates in one
// process, and the failures that an election is for, each measured while it happens.
//
// cluster.go holds the nodes and the candidates, observations.go what the candidates' work
// has seen of the election, steps.go the story; serve.go repeats it on the console's page.
package demo
