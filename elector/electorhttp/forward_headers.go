package electorhttp

// Headers between replicas, and for the app. Those that a client sends are removed.
const (
	tokenHeader     = "Mandate-Token"      // to the app, and on answers: of the term that serves the request; between replicas: of the term believed to be valid
	leaderHeader    = "Mandate-Leader"     // on answers
	forwardedHeader = "Mandate-Forwarded"  // the candidate that forwarded the request: it is forwarded once
	heldHeader      = "Mandate-Hold-Ms"    // how long the request may still wait
	passedHeader    = "Mandate-Passed-By"  // to the app: the election and candidate that passed the request on
	notLeaderHeader = "Mandate-Not-Leader" // on answers between replicas: the app has not seen the request
)
