// Package demo implements `mandate demo`: three embedded Redis nodes and three candidates in one
// process, and the failures that elections protect against, each measured while it happens.
//
// cluster.go has the nodes and the candidates, observations.go what the candidates' work has seen,
// leaders.go the changes of the leader, steps.go the steps. again.go repeats a step that has
// failed, and serve.go repeats all steps on the console's page.
package demo
