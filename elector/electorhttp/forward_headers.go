package electorhttp

// Headers between replicas, and for the app. A client's own are removed.
const (
	tokenHeader     = "Mandate-Token"      // on requests: the term's that serves it; between replicas: the one that is believed to lead
	leaderHeader    = "Mandate-Leader"     // on answers
	forwardedHeader = "Mandate-Forwarded"  // by which candidate: it is forwarded once
	heldHeader      = "Mandate-Hold-Ms"    // how long it may wait at most
	passedHeader    = "Mandate-Passed-By"  // on requests to the app: which candidate of which election it is
	notLeaderHeader = "Mandate-Not-Leader" // on answers between replicas: the app has not seen the request
)
