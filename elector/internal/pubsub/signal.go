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

	made *any // what a subscriber has made of a Message for all; nil: none may
}

// Parsed is what parse makes of the payload of a Message. It is called once for all subscribers of the channel which call Parsed
// while they are notified: a thousand candidates of one election in a process would each parse what each of them
// publishes. They share the result, and must not change it.
func Parsed[T any](s Signal, parse func(payload string) T) T {
	if s.made == nil {
		return parse(s.Payload)
	}
	made, ok := (*s.made).(T)
	if !ok {
		made = parse(s.Payload)
		*s.made = made
	}
	return made
}
