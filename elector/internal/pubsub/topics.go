package pubsub

import "slices"

// topics are the channels of one node that have subscribers, or had some a moment ago. A process
// with ten thousand elections has several channels for each, so a change by one subscriber must
// not cost an iteration over all of them. The hub's mutex guards the topics.
type topics struct {
	all     map[string]*topic
	active  int      // topics with subscribers
	altered []string // channels that the hub's writer has to check
}

type topic struct {
	subscribers []*subscriber
	altered     bool // the channel is in topics.altered
	requested   bool // requested on this connection
	joined      bool // confirmed by the server on this connection
}

// subscriber receives the signals of a channel.
type subscriber struct {
	notify func(Signal)
	place  int // 1 + its index in the topic's subscribers; 0: it is not among them
}

// add adds a subscriber, and reports whether the server has confirmed the channel already.
func (ts *topics) add(channel string, s *subscriber) (joined bool) {
	t := ts.all[channel]
	if t == nil {
		t = &topic{}
		ts.all[channel] = t
	}
	if len(t.subscribers) == 0 {
		ts.active++
	}
	t.subscribers = append(t.subscribers, s)
	s.place = len(t.subscribers)
	if !t.requested {
		ts.alter(channel, t)
	}
	return t.joined
}

func (ts *topics) remove(channel string, s *subscriber) {
	if s.place == 0 {
		return
	}
	t := ts.all[channel]
	last := len(t.subscribers) - 1
	moved := t.subscribers[last]
	t.subscribers[s.place-1], moved.place = moved, s.place
	t.subscribers[last], t.subscribers = nil, t.subscribers[:last]
	s.place = 0
	if last == 0 {
		ts.active--
		ts.alter(channel, t)
	}
}

func (ts *topics) alter(channel string, t *topic) {
	if !t.altered {
		t.altered = true
		ts.altered = append(ts.altered, channel)
	}
}

// due returns the altered channels to subscribe to and to unsubscribe from, and clears the list.
func (ts *topics) due() (add, drop []string) {
	for _, channel := range ts.altered {
		t := ts.all[channel]
		t.altered = false
		switch {
		case len(t.subscribers) == 0:
			if t.requested {
				drop = append(drop, channel)
			}
			delete(ts.all, channel)
		case !t.requested:
			t.requested = true
			add = append(add, channel)
		}
	}
	ts.altered = nil
	return add, drop
}

// renew marks all channels to be requested, on a new connection.
func (ts *topics) renew() {
	for channel, t := range ts.all {
		t.requested, t.joined = false, false
		ts.alter(channel, t)
	}
}

// again marks the channels that the server has not confirmed to be requested again.
func (ts *topics) again() {
	for channel, t := range ts.all {
		if !t.joined {
			t.requested = false
			ts.alter(channel, t)
		}
	}
}

// received appends the subscribers of the signal's channel to to.
func (ts *topics) received(s Signal, to []*subscriber) []*subscriber {
	t := ts.all[s.Channel]
	if t == nil {
		return to
	}
	t.joined = t.joined || s.Kind == Subscribed
	return append(to, t.subscribers...)
}

// lost returns all subscribers, by channel, after the connection has ended or the server has
// refused a subscription.
func (ts *topics) lost() map[string][]*subscriber {
	all := make(map[string][]*subscriber, len(ts.all))
	for channel, t := range ts.all {
		t.joined = false
		all[channel] = slices.Clone(t.subscribers)
	}
	return all
}
