// Package electorhttp serves over HTTP which candidate leads: to load balancers, to
// readiness probes, and to a program in any language that works beside the candidate.
//
//	h, err := electorhttp.New(e, electorhttp.Config{})
//	listener, err := electorhttp.Listen(ctx, "127.0.0.1:8080")
//	err = h.Serve(ctx, listener) // until ctx ends; or mount h, and call h.Run
//
//	GET  /leader   200 on the leader, 503 elsewhere; who leads, as JSON and headers
//	GET  /status   what every Redis node reports
//	GET  /events   the state, then each newer one, as server-sent events
//	GET  /live     200 as long as this process answers
//	GET  /ready    200 when this candidate leads, or could be elected now
//	GET  /metrics  what Config.Metrics serves
//	POST /resign   this candidate steps down; only with Config.Token
//
// All GETs may be HEADs.
//
// # The answer of /leader
//
// The answer is 200 only while the term is valid, by the clock, at the moment of
// answering: a leader that is cut off answers 503 from its deadline on, whatever its
// other goroutines do. Time passes between the answer and the action based on it, so
// give the token to the resource that the worker writes to, and have the resource
// refuse smaller ones.
//
// # Workers beside the candidate
//
// A worker is a program that works beside this one while /leader answers 200. It may
// work for valid_for_ms, counted from before it sent the request. That is a promise,
// and the work of the term keeps it:
//
//	err = e.Run(ctx, h.Work(work))
//
// However the term ends, the lock is then not released before the last promise has
// lapsed: at most Config.Promise later. Without Work nothing is promised, and
// valid_for_ms is 0. A promise never reaches beyond the term's deadline, so it also
// holds when this process is killed; a supervisor releases the lock only when it has
// lapsed. HEAD, and GET with valid_for_ms=0, request no promise; use them for load
// balancers. Serve until Run has returned, so that workers are answered 503 while the
// term ends.
//
// docs/http.md has the rules for the worker.
//
// # Events
//
// A stream begins with the current state (elected or vacant), and continues with the
// events of package elector, with their JSON as data and their kind as the event's
// name. A client that reconnects begins with the current state again. Comments are sent in
// quiet times, so that a client can distinguish a quiet stream from a broken one.
//
// The stopping event of this candidate is sent the moment its term ends. Events only
// inform: none of them permits a client to work.
//
// # A service in front of the leader
//
// [Forward] lets every replica of a service take requests, and the leader execute them:
// followers pass requests on, and no load balancer needs to know which replica leads.
package electorhttp
