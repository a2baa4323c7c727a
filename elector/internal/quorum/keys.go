package quorum

// Keys are the names of everything an election keeps in Redis. The braces make
// Redis Cluster put them all into one slot.
type Keys struct {
	Lock, Fence, New, Pause, Next, ID, History string // keys
	Events, Wake, Ask                          string // channels
}

// Reply is the channel on which answers to one question are given.
func (k Keys) Reply(nonce string) string { return k.Ask + ":" + nonce }

// KeysOf names the keys of an election under a prefix.
func KeysOf(prefix, election string) Keys {
	p := prefix + ":{" + election + "}:"
	return Keys{
		Lock: p + "lock", Fence: p + "fence", New: p + "new", Pause: p + "pause", Next: p + "next", ID: p + "id",
		History: p + "history", Events: p + "events", Wake: p + "wake", Ask: p + "ask",
	}
}
