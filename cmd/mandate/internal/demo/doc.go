// Package demo is `mandate demo`: three embedded Redis nodes and three candidates in one
// process, and the failures that an election is for, each measured while it happens.
//
// cluster.go holds the nodes and the candidates, observations.go what the candidates' work
// has seen of the election, leaders.go who led last, steps.go the story; again.go plays a
// step until it has happened, and serve.go repeats all on the console's page.
package demo
