// Package electorhttp tells over HTTP who leads: to load balancers, to readiness
// probes, and to a program in any language that works beside the candidate.
//
//	h, err := electorhttp.New(e, electorhttp.Config{})
//	listener, err := electorhttp.Listen(ctx, "127.0.0.1:8080")
//	err = h.Serve(ctx, listener) // until ctx ends; or mount h, and call h.Run
//
//	GET  /leader   200 on the leader, 503 elsewhere; who leads, as JSON and headers
//	GET  /status   what every Redis node says
//	GET  /history  the last terms (?n=, 20 by default)
//	GET  /candidates  who takes part (asks all of them)
//	GET  /events   every change, as server-sent events
//	GET  /live     200 as long as this process answers
//	GET  /ready    200 when this candidate is able to take part
//	GET  /metrics  what Config.Metrics serves
//	POST /resign   this candidate steps down; only with Config.Token
//	POST /transfer?to=ID  whoever leads hands over; only with Config.Token
//
// All GETs may be HEADs.
//
// # The answer of /leader
//
// It is 200 only while the term holds, by the clock, at the moment of answering:
// a leader that is cut off answers 503 from its deadline on, whatever its other
// goroutines do. The body says for how long the term holds unless it is renewed
// (valid_for_ms). Between the answer and what is done with it time passes, as
// ever; give the token to whatever is written to, and have it refuse smaller
// ones.
//
// # Events
//
// A stream begins with how things stand (elected or vacant), and goes on with the
// events of package elector, their JSON as data and their kind as the event's
// name. A client that comes back with Last-Event-ID gets what it missed, up to
// 256 events, or "skipped" with how many were too many. Comments are sent in
// quiet times, so that a client can tell quiet from cut off.
//
// The stopping event of this candidate is sent the moment its term ends.
package electorhttp
