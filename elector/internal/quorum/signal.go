package quorum

// SignalKind tells what a subscriber hears.
type SignalKind int

// What a subscriber hears.
const (
	Message    SignalKind = iota // somebody published
	Subscribed                   // (again) subscribed: messages may have been missed
	Deaf                         // the subscription failed: waiting goes by time alone
)

// Signal is one thing heard on a channel of one node. It is a hint: messages
// get lost, forged and replayed, and no state is taken from one without asking.
type Signal struct {
	Kind    SignalKind
	Node    int
	Channel string
	Payload string
	Err     error
}

// Listener is called for every signal, on the goroutine that reads the
// subscription: it must not block.
type Listener struct{ hear func(Signal) }

// Watch subscribes to a channel on every node; it does not wait for the
// subscription. The returned function ends it, and may be called twice.
func (ns *Nodes) Watch(channel string, hear func(Signal)) (stop func()) {
	ears := make([]*Listener, len(ns.list))
	for i, n := range ns.list {
		ears[i] = &Listener{hear: func(s Signal) { s.Node = i; s.Err = ns.nodeError(i, s.Err); hear(s) }}
		n.hub.add(channel, ears[i])
	}
	return func() {
		for i, n := range ns.list {
			n.hub.remove(channel, ears[i])
		}
	}
}
