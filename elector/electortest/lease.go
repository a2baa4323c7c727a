package electortest

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

const (
	pollEvery = time.Millisecond      // how often Lead checks
	waitLimit = 10 * time.Minute      // of Lead and TakeLease, by the test's clock
	retry     = 20 * time.Millisecond // after what time the candidates that Lead keeps out try again
)

// rival is the candidate that holds the lock when no elector of the test is to hold it.
const rival = "electortest"

// Lead makes e the leader of its election, and returns when its term has begun.
// Run or Campaign of e must be under way. If another candidate leads, Lead takes its
// lease away, as [Redis.TakeLease] does. The claims of other candidates are refused until
// Lead returns.
//
// Lead takes up to a lease of the test's clock, plus the time for which e itself waits (a
// cool-down, a probe). The test fails if e does not lead within ten minutes.
func (r *Redis) Lead(e *elector.Elector) {
	r.t.Helper()
	r.choose(e.Election().Name(), e.ID())
	defer r.choose(e.Election().Name(), "")
	for limit := time.Now().Add(waitLimit); !e.IsLeader(); time.Sleep(pollEvery) {
		if time.Now().After(limit) {
			r.t.Fatalf("electortest: %s does not lead %s: is its Run or Campaign under way? Check returns: %v", e.ID(), e.Election().Name(), e.Check())
		}
		if lock, holder := r.lockOf(e.Election().Name()); lock != "" && holder.Candidate != e.ID() {
			r.seize(lock, holder, "", 0)
		}
	}
}

// TakeLease takes the lease away from e, which must lead, and gives it to a rival, which is none
// of the test's electors, for the length of one lease. TakeLease returns when e's term has ended,
// which is at its next renewal. The work of e may still be stopping then.
func (r *Redis) TakeLease(e *elector.Elector) {
	r.t.Helper()
	election, term := e.Election().Name(), e.Term()
	lock, holder := r.lockOf(election)
	value := protocol.LockValue{Candidate: rival, Incarnation: rival, Seq: 1, Nodes: holder.Nodes, Lease: holder.Lease}.String()
	if term == nil || holder.Candidate != e.ID() || !r.seize(lock, holder, value, holder.Lease) {
		r.t.Fatalf("electortest: %s has no lease that could be taken away: it does not lead %s", e.ID(), election)
	}
	select {
	case <-term.Done():
	case <-time.After(waitLimit):
		r.t.Fatalf("electortest: %s still leads, %v after its lease was taken away", e.ID(), waitLimit)
	}
}

// lockOf finds the lock of an election, under any prefix; the key is empty if the lock is free.
func (r *Redis) lockOf(election string) (key string, holder protocol.LockValue) {
	for _, k := range r.node.Server().Keys() {
		if !strings.HasSuffix(k, lockSuffix(election)) {
			continue
		}
		value, _ := r.node.Server().Get(k) // empty if the lock has just expired
		if b, err := protocol.ParseLockValue(value); err == nil {
			return k, b
		}
	}
	return "", protocol.LockValue{}
}

// lockSuffix returns the lock's key without the prefix.
func lockSuffix(election string) string { return protocol.KeysOf("", election).Lock }

// seizeScript takes the lock from an attempt, as another candidate's term would: it also
// increments the counter, so that the holder's next renewal finds the lock taken, or may not
// re-create it. It does so in one atomic step, because the attempt may release, and another
// one win, at any time.
var seizeScript = redis.NewScript(`
local held = redis.call('GET', KEYS[1])
if not held or string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
local token = string.format('%.0f', tonumber(redis.call('GET', KEYS[2]) or '0') + 1)
redis.call('SET', KEYS[2], token)
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2] .. ' token=' .. token, 'PX', ARGV[3])
end
return 1`)

// seize takes the lock from the holder's attempt, and sets it to value; "" leaves it free. It
// returns false if the attempt no longer held the lock.
func (r *Redis) seize(lock string, holder protocol.LockValue, value string, lease time.Duration) bool {
	r.t.Helper()
	attempt := holder.Candidate + "/" + holder.Incarnation + "/" + strconv.FormatUint(holder.Seq, 10) + " "
	fence := strings.TrimSuffix(lock, "lock") + "fence"
	n, err := seizeScript.Run(context.Background(), r.admin, []string{lock, fence}, attempt, value, lease.Milliseconds()).Int()
	if err != nil {
		r.t.Fatalf("electortest: taking the lock of %s: %v", holder.Candidate, err)
	}
	return n == 1
}

// choose lets only the given candidate win the election; "" lets any candidate win.
func (r *Redis) choose(election, candidate string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chosen[election] = candidate
}

// keepOut answers the claim of a candidate that Lead did not choose, as if the rival held
// the lock. It is called with each script call.
func (r *Redis) keepOut(c testredis.Call, peer *server.Peer) (answered bool) {
	r.node.Took() // nobody reads its record of calls
	calls := testredis.Requests("EVAL", append([]string{testredis.Script(c.Script).Source()}, c.Args...)...)
	if len(calls) == 0 || calls[0].Script != testredis.ScriptClaim {
		return false
	}
	if len(calls) > 1 { // refused as by a Cluster, so that the elector sends one call per election
		peer.WriteError("CROSSSLOT Keys in request don't hash to the same slot")
		return true
	}
	value, err := protocol.ParseLockValue(calls[0].Args[testredis.ScriptClaim.Arg("value")])
	chosen := r.chosenOf(calls[0].Keys[0])
	if err != nil || chosen == "" || chosen == value.Candidate {
		return false
	}
	value.Candidate, value.Incarnation = rival, rival
	testredis.RefuseClaim(peer, value.String(), retry)
	return true
}

// chosenOf returns the only candidate that may have the lock; "": any may.
func (r *Redis) chosenOf(lock string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for election, candidate := range r.chosen {
		if strings.HasSuffix(lock, lockSuffix(election)) {
			return candidate
		}
	}
	return ""
}
