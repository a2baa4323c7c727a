package pubsub

// Kind is what a Signal reports.
type Kind int

// The kinds of signals.
const (
	Message    Kind = iota // a process published
	Subscribed             // (again) subscribed: messages may have been missed
	Failed                 // the subscription failed: messages are missed until Subscribed
)

// Signal is one thing received on a channel of one node.
type Signal struct {
	Kind    Kind
	Node    int
	Channel string
	Payload string
	Err     error // of Failed; names the node
}
