package transport

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// MaxBatch is the maximum number of elections in one call. While such a call runs, about half
// a millisecond, every other client of the node waits.
const MaxBatch = 64

// queueID identifies the requests that can travel together. A release must not wait behind
// renewals, nor a request with a short time-out behind one with a long one.
type queueID struct {
	script *redis.Script
	limit  time.Duration // for the answer
	master *redis.Client // of the elections' slots, where the node is a Cluster
}

// scriptQueue holds the requests of one kind. The sender's mutex guards it.
type scriptQueue struct {
	id      queueID
	script  protocol.ElectionScript
	via     *redis.Client // with the time-out
	waiting []*Request    // in the order of their arrival
	calls   []*call       // under way, or about to be
	alarm   *time.Timer   // runs onAlarm, for what is late; nil: nothing can be late
	rings   time.Time     // when alarm goes off
}

type call struct {
	since   time.Time
	overdue bool       // waiting requests no longer wait for it to end
	posted  []*Request // its requests that no goroutine waits for
}

// busy returns how many calls are under way and not overdue.
func (q *scriptQueue) busy() int {
	n := 0
	for _, c := range q.calls {
		if !c.overdue {
			n++
		}
	}
	return n
}

func (q *scriptQueue) renews() bool    { return q.id.script == protocol.RenewScript.Script }
func (q *scriptQueue) announces() bool { return q.id.script == protocol.AnnounceScript.Script }

// mayWait reports whether the waiting requests may be held until Gather has collected more. Reports
// are not held, nor a request that a goroutine waits for, such as a claim after a release.
func (q *scriptQueue) mayWait() bool {
	return !q.announces() && !slices.ContainsFunc(q.waiting, func(r *Request) bool { return r.requester == nil })
}

// waitsForOthers reports whether a call lets other requests join before it is sent: a call of
// renewals always, any other while an earlier call is under way.
func (q *scriptQueue) waitsForOthers() bool { return q.renews() || len(q.calls) > 0 }

func (q *scriptQueue) begin() *call {
	c := &call{since: time.Now()}
	q.calls = append(q.calls, c)
	return c
}

func (q *scriptQueue) take(c *call) []*Request {
	n := min(len(q.waiting), MaxBatch)
	all := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	c.posted = slices.DeleteFunc(slices.Clone(all), func(r *Request) bool { return r.requester == nil })
	return all
}
