package pubsub

// Kind is the kind of a Signal.
type Kind int

// The kinds of signals.
const (
	Message    Kind = iota // a message was published
	Subscribed             // the node confirmed the subscription, perhaps again: messages may have been missed before
	Failed                 // the subscription failed: messages are missed until the next Subscribed
)

// Signal is a message on a channel of one node, or a change of the subscription to it.
type Signal struct {
	Kind    Kind
	Node    int
	Channel string
	Payload string
	Err     error // of Failed; names the node

	parsed *any // the parsed Message, shared by all subscribers; nil: there is only one
}

// Parsed returns the result of parse for the payload of a Message. All subscribers of the channel
// that call Parsed while they are notified share one call of parse, and its result, which they must
// not change. Otherwise each of a thousand candidates of one election in a process would parse what
// each of the others publishes.
func Parsed[T any](s Signal, parse func(payload string) T) T {
	if s.parsed == nil {
		return parse(s.Payload)
	}
	made, ok := (*s.parsed).(T)
	if !ok {
		made = parse(s.Payload)
		*s.parsed = made
	}
	return made
}
