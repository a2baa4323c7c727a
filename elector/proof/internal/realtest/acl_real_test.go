//go:build unix

package realtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
)

// shippedACL is the file that docs/redis.md tells users to take.
const shippedACL = "../../../../docs/redis.acl"

// The users of the shipped file.
const (
	candidates = "mandate"
	operator   = "mandate-operator"
	reader     = "mandate-reader"
)

// shipped are the rights that the shipped file gives to a user, as words.
func shipped(t *testing.T, user string) []string {
	t.Helper()
	b, err := os.ReadFile(shippedACL)
	must(t, err)
	for line := range strings.Lines(string(b)) {
		if rights, ok := strings.CutPrefix(line, "user "+user+" on >change-me "); ok {
			return wordsOf(rights)
		}
	}
	t.Fatalf("%s has no line for %s as the documentation says: %q", shippedACL, user, b)
	return nil
}

// wordsOf splits the rights; a selector is one word.
func wordsOf(rights string) (words []string) {
	for word := range strings.FieldsSeq(rights) {
		if n := len(words); n > 0 && strings.HasPrefix(words[n-1], "(") && !strings.HasSuffix(words[n-1], ")") {
			words[n-1] += " " + word
			continue
		}
		words = append(words, word)
	}
	return words
}

// guarded runs a server with the shipped users, one of which has other rights.
func guarded(t *testing.T, user string, rights []string) *servertest.Server {
	t.Helper()
	var lines strings.Builder
	for _, u := range []string{candidates, operator, reader} {
		has := shipped(t, u)
		if u == user {
			has = rights
		}
		lines.WriteString("user " + u + " on >change-me " + strings.Join(has, " ") + "\n")
	}
	file := filepath.Join(t.TempDir(), "redis.acl")
	must(t, os.WriteFile(file, []byte(lines.String()), 0o600))
	return servertest.Redis(t, "--aclfile", file)
}

// as is a quorum of that server, for a user.
func as(t *testing.T, user string, s *servertest.Server) *elector.Quorum {
	t.Helper()
	return open(t, "redis://"+user+":change-me@"+s.Addr())
}

// lifecycle is all that an election does with Redis: a first election, a follower,
// an observer, a handover, a look at the status, the end. It returns what did
// not work, in words.
func lifecycle(t *testing.T, s *servertest.Server) (complaints []string) {
	t.Helper()
	complain := func(what string) { complaints = append(complaints, what) }
	el := newElectorate(t)
	a := el.join("a", as(t, candidates, s))
	if err := a.leadsOrEnds(el.lease + slack); err != nil {
		if !errors.Is(err, elector.ErrPermanent) || !strings.Contains(err.Error(), "docs/redis.md") {
			complain("no advice: " + err.Error())
		}
		return append(complaints, "no election")
	}
	time.Sleep(el.lease / 4) // refused subscriptions and publications are seen by then, and it has recorded its election
	q := as(t, candidates, s)
	looks(t, q, complain)
	b := el.join("b", q)
	seen := collect(t, electionOf(q, "orders")) // from outside: b's own election needs no message
	refused := func(objects ...string) bool {
		return slices.ContainsFunc(denied(t, s, candidates), func(what string) bool {
			return slices.Contains(objects, what) || strings.HasSuffix(what, ":events")
		})
	}
	subscribed := !refused("subscribe")
	messages := subscribed && !refused("publish")
	op := s.Client(t)
	servertest.Eventually(t, slack, "b follows, and listens with the observer", func() bool {
		_, follows := b.LastLeader()
		return follows && len(seen) > 0 && (!subscribed || op.PubSubNumSub(t.Context(), eventsChannel).Val()[eventsChannel] > 0)
	})
	time.Sleep(el.lease / 8) // b has claimed again, having subscribed
	began := time.Now()
	a.shutdown()
	if err := b.leadsOrEnds(2*el.lease + slack); err != nil {
		return append(complaints, "no follower")
	}
	// A release that is not noticed is found by the end of the lease as b saw it an eighth ago: at least
	// five from here. One that is noticed takes milliseconds.
	if d := time.Since(began); d > el.lease*3/8 {
		complain("slow handover")
	}
	told := receives(seen, el.lease+slack, func(ev elector.Event) bool { // an observer without messages polls once per lease
		return ev.Kind == elector.EventReleased && ev.Reason == elector.ReasonShutdown
	})
	if !told && !messages { // it may have polled between the release and its record: then only the history has the reason
		terms, err := electionOf(b.Q, "orders").History(t.Context(), 2)
		told = err == nil && len(terms) == 2 && terms[1].Reason == elector.ReasonShutdown
	}
	if !told {
		complain("no word of the end")
	}
	servertest.Eventually(el.t, el.lease+slack, "has renewed, or tried", func() bool {
		r := b.Stats().Renewals
		return r.Confirmed+r.Unconfirmed+r.Refused > 0
	})
	b.shutdown()
	if len(b.Log.Lines("WARN")) > 0 {
		complain("warned")
	}
	return complaints
}

// looks reads who leads, the history and the list of elections.
func looks(t *testing.T, q *elector.Quorum, complain func(string)) {
	t.Helper()
	if st, err := electionOf(q, "orders").Status(t.Context()); err != nil || st.Leader == nil {
		complain("no status")
	}
	if terms, err := electionOf(q, "orders").History(t.Context(), 1); err != nil || len(terms) == 0 || !terms[0].Current || terms[0].Reason != "" {
		complain("no history")
	}
	if names, err := q.Elections(t.Context()); err != nil || !slices.Equal(names, []string{"orders"}) {
		complain("no list")
	}
}

// leadsOrEnds returns nil when c leads, and Run's error when it ended instead.
func (c *candidate) leadsOrEnds(within time.Duration) error {
	c.T.Helper()
	servertest.Eventually(c.T, within, "leads or ends", func() bool { return c.IsLeader() || !c.Running() })
	if c.Running() {
		return nil
	}
	return c.Result
}

// collect keeps up to 100 events that an observer reports.
func collect(t *testing.T, e *elector.Election) <-chan elector.Event {
	seen, events := make(chan elector.Event, 100), observe(t.Context(), e)
	go func() {
		for ev := range events {
			seen <- ev
		}
	}()
	return seen
}

// receives waits for an event.
func receives(ch <-chan elector.Event, within time.Duration, is func(elector.Event) bool) bool {
	late := time.After(within)
	for {
		select {
		case ev := <-ch:
			if is(ev) {
				return true
			}
		case <-late:
			return false
		}
	}
}

// denied is what the server refused to a user, by its own log: commands, keys
// and channels.
func denied(t *testing.T, s *servertest.Server, user string) (objects []string) {
	t.Helper()
	log, err := s.Client(t).ACLLog(context.Background(), 100).Result()
	must(t, err)
	for _, e := range log {
		if e.Username == user {
			objects = append(objects, e.Object)
		}
	}
	return objects
}

// enough wants that nobody complains of a user's rights, and that the server has refused nothing to him.
func enough(t *testing.T, s *servertest.Server, user string, complaints []string) {
	t.Helper()
	if refused := denied(t, s, user); len(complaints)+len(refused) > 0 {
		t.Errorf("with the shipped rights: %q; the server refused %q", complaints, refused)
	}
}

// The shipped file is enough: nothing fails, nothing is refused.
func TestRealACLIsEnough(t *testing.T) {
	t.Parallel()
	s := guarded(t, candidates, shipped(t, candidates))
	enough(t, s, candidates, lifecycle(t, s))
}

// Less is not enough: with any one right taken away the election fails with advice, or is worse
// in a way that docs/redis.md names; and the server refuses something, so the right is needed.
func TestRealACLLessIsNotEnough(t *testing.T) {
	t.Parallel()
	misses := map[string][]string{
		// The word of the end comes from the history, with the messages or without.
		"&mandate:*":        {"slow handover", "warned"},
		"+subscribe":        {"slow handover", "warned"},
		"+publish":          {"slow handover"},
		"+xadd":             {"no history", "warned"},
		"+xrevrange":        {"no history"},
		"+pexpire":          {"warned"},
		"+zadd":             {"no list"},
		"+zrevrange":        {"no list"},
		"+zremrangebyscore": nil, // names of elections that have ended stay
		"+pubsub|numsub":    nil, // the crowd's size: seen with many followers only
		"+unsubscribe":      nil, // the refusal costs the connection, and maybe a message
		"+mget":             nil, // a query of the nodes takes two round trips
		"+ping":             nil, // the sign of life after half a minute of silence, as +unsubscribe
	}
	for _, right := range []string{"~mandate:*", "+eval", "+evalsha", "+get", "+set", "+del", "+pttl", "+time"} {
		misses[right] = []string{"no election"}
	}
	all := shipped(t, candidates)
	for i, right := range all {
		if slices.Contains(groupRights, right) { // TestRealACLGroup
			continue
		}
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			s := guarded(t, candidates, slices.Concat(all[:i], all[i+1:]))
			got := lifecycle(t, s)
			if right == "+unsubscribe" {
				got = slices.DeleteFunc(got, func(miss string) bool { return miss == "no word of the end" })
			}
			if want, known := misses[right]; !known || !slices.Equal(got, want) {
				t.Errorf("without %s: %q, want %q", right, got, want)
			}
			if right == "+ping" { // half a minute is too long for a test
				signOfLife(t, s, candidates)
			}
			if len(denied(t, s, candidates)) == 0 {
				t.Errorf("nothing was refused without %s: it is not needed", right)
			}
		})
	}
	t.Run("all keys but the history", func(t *testing.T) {
		t.Parallel()
		keys := strings.Fields("~mandate:*:lock ~mandate:*:fence ~mandate:*:new ~mandate:*:next ~mandate:*:pause ~mandate:*:id ~mandate:elections")
		rights := slices.DeleteFunc(slices.Clone(all), func(right string) bool { return right == "~mandate:*" })
		if got := lifecycle(t, guarded(t, candidates, append(rights, keys...))); !slices.Equal(got, []string{"no history", "warned"}) {
			t.Errorf("without the history: %q", got)
		}
	})
}

// signOfLife sends on a subscription what a silent one is sent.
func signOfLife(t *testing.T, s *servertest.Server, user string) {
	t.Helper()
	c := s.Client(t, func(o *redis.Options) { o.Username, o.Password = user, "change-me" })
	ps := c.Subscribe(t.Context(), "mandate:{orders}:events")
	defer ps.Close()
	must(t, ps.Ping(t.Context()))
	for range 2 { // the subscription, the answer
		if _, err := ps.Receive(t.Context()); err != nil {
			return
		}
	}
	t.Error("a PING without the right to it was answered")
}

// groupRights are what only a member of a group needs of the shipped rights.
var groupRights = []string{"+hset", "+hget", "+hgetall", "+hdel"}

// The documented rights suffice for ticks, and to read them. TestOnceWithoutARightReal of package fence needs each.
func TestRealACLOnce(t *testing.T) {
	t.Parallel()
	once := func(s *servertest.Server, user string) *fence.Once {
		e, err := as(t, user, s).Election("orders")
		must(t, err)
		o, err := fence.NewOnce(s.Client(t, func(o *redis.Options) { o.Username, o.Password = user, "change-me" }), e)
		must(t, err)
		return o
	}
	tick := fence.Tick{Job: "bills", At: time.Now(), Token: 1, By: "a"}
	s := guarded(t, candidates, shipped(t, candidates))
	if _, err := once(s, candidates).Take(t.Context(), tick); err != nil {
		t.Error(err)
	}
	least := []string{"%R~mandate:*", "+zrevrange", "+hgetall", "+time"}
	for user, s := range map[string]*servertest.Server{operator: s, reader: s, "least": guarded(t, reader, least)} {
		if user == "least" {
			user = reader
			if _, err := once(s, candidates).Take(t.Context(), tick); err != nil {
				t.Error(err)
			}
		}
		e, err := as(t, user, s).Election("orders")
		must(t, err)
		if all, err := doctor.Ticks(t.Context(), e); err != nil || len(all) != 1 {
			t.Errorf("%s reads %v, %v", user, all, err)
		}
	}
}

// runMember runs a member of the group orders until ctx ends; the channel has Run's error.
func runMember(t *testing.T, ctx context.Context, q *elector.Quorum, cfg shard.Config) (*shard.Member, <-chan error) {
	t.Helper()
	cfg.Group = "orders"
	m, err := shard.New(q, cfg)
	must(t, err)
	done, ended := make(chan error, 1), make(chan struct{})
	t.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		done <- m.Run(ctx, func(ctx context.Context, _ *shard.Term) error {
			<-ctx.Done()
			return nil
		})
	}()
	return m, done
}

// ownsAll runs a member with these rights, and reports whether it came to own all shards.
func ownsAll(t *testing.T, rights []string, within time.Duration) (owned bool, log *testcluster.Logbook) {
	t.Helper()
	s := guarded(t, candidates, rights)
	log = &testcluster.Logbook{}
	ctx, stop := context.WithCancel(t.Context())
	cfg := shard.Config{Shards: 3, Lease: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))}
	m, done := runMember(t, ctx, as(t, candidates, s), cfg)
	for began := time.Now(); time.Since(began) < within && !owned; time.Sleep(20 * time.Millisecond) {
		owned = len(m.Owned()) == 3
	}
	stop()
	if err := <-done; err != nil {
		if !errors.Is(err, elector.ErrPermanent) || !strings.Contains(err.Error(), "docs/redis.md") {
			t.Error(err)
		}
		log.Logger().Warn("Run ended", "error", err)
	}
	return owned, log
}

// The documented rights suffice for a group, and each of them is used: without one the log
// names what is missing.
func TestRealACLGroup(t *testing.T) {
	t.Parallel()
	if owned, log := ownsAll(t, shipped(t, candidates), 30*time.Second); !owned {
		t.Fatalf("the documented rights don't suffice:\n%s", strings.Join(log.Lines(), ""))
	}
	for _, right := range groupRights {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			rights := slices.DeleteFunc(shipped(t, candidates), func(r string) bool { return r == right })
			_, log := ownsAll(t, rights, 3*time.Second)
			if len(log.Lines("level=WARN", "docs/redis.md", right)) == 0 {
				t.Errorf("the log does not say what is missing:\n%s", strings.Join(log.Lines(), ""))
			}
		})
	}
}

// steers is what an operator does, while two candidates take part.
func steers(t *testing.T, s *servertest.Server) (complaints []string) {
	t.Helper()
	complain := func(what string, err error) {
		if errors.Is(err, elector.ErrDenied) && !strings.Contains(err.Error(), "needs +") {
			t.Errorf("%s: the missing right is not named: %v", what, err)
		}
		t.Logf("%s: %v", what, err)
		complaints = append(complaints, what)
	}
	el := newElectorate(t)
	for _, id := range []string{"a", "b"} {
		el.join(id, as(t, candidates, s))
	}
	q := as(t, operator, s)
	leads, term := el.next(0, el.lease+slack)
	other := map[string]string{"a": "b", "b": "a"}[leads.ID()]
	receiveRollCalls(t, s, 2)
	if all, err := electionOf(q, "orders").Candidates(t.Context()); err != nil || len(all) != 2 {
		complain("no roll call", err)
	}
	move := func(what string, err error) {
		if err == nil {
			_, term = el.next(term.Token(), el.lease+slack)
			return
		}
		complain(what, err)
		el.survives(term, el.lease/4) // a hopeless request has stopped nothing
	}
	_, _, err := electionOf(q, "orders").Transfer(t.Context(), other)
	move("no transfer", err)
	_, _, err = electionOf(q, "orders").StepDown(t.Context(), "a test")
	move("no resignation", err)
	if err := electionOf(q, "orders").Pause(t.Context(), time.Minute, "a test"); err != nil {
		complain("no pause", err)
	} else if past := electionOf(as(t, candidates, s), "orders").Look(t.Context(), 1); past.TermsErr != nil || len(past.Pauses) != 1 {
		complain("no record of the pause", err)
	}
	if err := electionOf(q, "orders").Resume(t.Context()); err != nil {
		complain("no resumption", err)
	}
	for _, c := range el.all { // none may win the next election of this server
		c.shutdown()
	}
	return complaints
}

// The operator may look, and steer, and take nobody's lock.
func TestRealACLOperatorIsEnough(t *testing.T) {
	t.Parallel()
	s := guarded(t, operator, shipped(t, operator))
	enough(t, s, operator, steers(t, s))
	s.Do(t, "FLUSHALL")
	enough(t, s, operator, sight(t, s, operator))
	c := s.Client(t)
	for _, harm := range [][]any{
		{"EVAL", "return 1", "0"},
		{"DEL", "mandate:{orders}:lock"},
		{"SET", "mandate:{orders}:fence", "0"},
		{"DEL", "mandate:{orders}:history"},
		{"XADD", "mandate:{orders}:lock", "*", "a", "b"},
		{"PUBLISH", "mandate:{orders}:events", "x"},
	} {
		answer := c.Do(t.Context(), append([]any{"ACL", "DRYRUN", operator}, harm...)...).String()
		if !strings.Contains(answer, "no permissions") != (harm[0] == "PUBLISH") {
			t.Errorf("an operator's %q: %s", harm, answer)
		}
	}
}

// sight is all that looking at an election takes: who leads and since when, the
// history, the list of elections, the roll call, changes as they happen. It returns what
// could not be seen.
func sight(t *testing.T, s *servertest.Server, user string) (complaints []string) {
	t.Helper()
	complain := func(what string) { complaints = append(complaints, what) }
	el := newElectorate(t)
	el.forgives = true // nothing here is about that
	a := el.join("a", as(t, candidates, s))
	_, _ = el.next(0, el.lease+slack)
	q := as(t, user, s)
	e, err := elector.New(q, elector.Config{Election: "orders", ID: "looks", Lease: el.lease})
	must(t, err)
	servertest.Eventually(t, slack, "the history tells of the election", func() bool {
		terms, err := electionOf(a.Q, "orders").History(t.Context(), 1)
		return err == nil && len(terms) == 1
	})
	looks(t, q, complain)
	receiveRollCalls(t, s, 1)
	if all, err := electionOf(q, "orders").Candidates(t.Context()); err != nil || len(all) == 0 {
		complain("no roll call")
		if err == nil || !strings.Contains(err.Error(), "needs +") {
			t.Errorf("the missing right is not named: %v", err)
		}
	}
	seen, began := collect(t, e.Election()), time.Now()
	servertest.Eventually(t, slack, "it observes, and has subscribed", func() bool {
		return len(seen) > 0 && s.Client(t).PubSubNumSub(t.Context(), eventsChannel).Val()[eventsChannel] > 0
	})
	a.shutdown()
	// It looks again a lease after it began: what it finds then must not be taken for news.
	if !receives(seen, time.Until(began.Add(el.lease*7/8)), func(ev elector.Event) bool { return ev.Kind == elector.EventReleased }) {
		complain("no news")
	}
	return complaints
}

// receiveRollCalls waits until so many candidates have subscribed: one that has not yet, on a
// busy machine, cannot answer.
func receiveRollCalls(t *testing.T, s *servertest.Server, candidates int64) {
	t.Helper()
	const roll = "mandate:{orders}:roll"
	c := s.Client(t)
	servertest.Eventually(t, lease+slack, "the candidates receive roll calls", func() bool {
		return c.PubSubNumSub(t.Context(), roll).Val()[roll] >= candidates
	})
}

// The reader may look at everything, without any refusal, and may do nothing; doctor has
// nothing to complain of.
func TestRealACLReaderIsEnough(t *testing.T) {
	t.Parallel()
	s := guarded(t, reader, shipped(t, reader))
	enough(t, s, reader, sight(t, s, reader))
	el := newElectorate(t)
	el.join("b", as(t, candidates, s))
	_, term := el.next(0, 2*el.lease+slack)
	q := as(t, reader, s)
	// status of an operator leaves this key for a moment.
	s.Client(t).Set(t.Context(), "mandate:{orders}:check", "", time.Minute)
	found, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "orders"})
	if err != nil {
		t.Error(err)
	}
	for _, f := range found {
		if f.Level.Worse(doctor.LevelUnknown) && f.Check != "persistence" || f.Level == doctor.LevelUnknown && f.Check == "candidates" {
			t.Errorf("doctor: %+v", f)
		}
	}
	_, _, resign := electionOf(q, "orders").StepDown(t.Context(), "")
	_, _, transfer := electionOf(q, "orders").Transfer(t.Context(), "b")
	for needs, err := range map[string]error{
		"+subscribe &mandate:{orders}:ask:": resign,
		"+set ~mandate:{orders}:pause":      electionOf(q, "orders").Pause(t.Context(), time.Minute, ""),
		"+del ~mandate:{orders}:pause":      electionOf(q, "orders").Resume(t.Context()),
	} {
		if !errors.Is(err, elector.ErrDenied) || !strings.Contains(err.Error(), "needs "+needs) {
			t.Errorf("says %v, want that it needs %s", err, needs)
		}
	}
	if !errors.Is(transfer, elector.ErrRefused) || !strings.Contains(transfer.Error(), "already the leader") {
		t.Errorf("a transfer to the leader: %v", transfer)
	}
	el.survives(term, el.lease)
}

// Whoever may run scripts, write, or publish where candidates listen can do harm. A reader
// may publish roll calls, and nothing else counts on their channel.
func TestRealACLReaderDoesNoHarm(t *testing.T) {
	t.Parallel()
	s := guarded(t, reader, shipped(t, reader))
	el := newElectorate(t)
	el.join("a", as(t, candidates, s))
	el.join("b", as(t, candidates, s))
	leader, term := el.next(0, el.lease+slack)
	el.follow(s.Client(t))
	receiveRollCalls(t, s, 2)
	c := s.Client(t, func(o *redis.Options) { o.Username, o.Password = reader, "change-me" })
	token := term.Token()
	stepDown := fmt.Sprintf(`{"v":1,"kind":"hand-over","election":"orders","nonce":"N","leader":"%s","token":%d}`, leader.Incarnation(), token)
	for _, harm := range [][]any{
		{"EVAL", "return redis.call('DEL', KEYS[1])", "1", "mandate:{orders}:lock"},
		{"DEL", "mandate:{orders}:lock"},
		{"SET", "mandate:{orders}:lock", "x"},
		{"PUBLISH", "mandate:{orders}:ask", stepDown},
		{"PUBLISH", "mandate:{orders}:events", fmt.Sprintf("1 elected %d  {}", token+1)},
		{"PUBLISH", "mandate:{orders}:ask:N", `{"v":1,"refused":"no"}`},                                               // the leader's answer to an operator
		{"PUBLISH", "mandate:{orders}:roll:N", `{"v":1,"card":{"id":"ghost","incarnation":"g1","role":"following"}}`}, // a candidate's answer
		{"SUBSCRIBE", "mandate:{orders}:ask"},                                                                         // an operator's requests
		{"SUBSCRIBE", "mandate:{orders}:roll"},                                                                        // other readers' roll calls, which could be answered
		{"PSUBSCRIBE", "mandate:{*}:roll:*"},
	} {
		if err := c.Do(t.Context(), harm...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("a reader's %q: %v", harm, err)
		}
	}
	received, err := c.Publish(t.Context(), "mandate:{orders}:roll", stepDown).Result()
	if err != nil || received < 2 {
		t.Errorf("%d candidates receive what a reader publishes, %v: nothing is tested", received, err)
	}
	el.survives(term, el.lease)
}

// Who pastes what doctor advises lacks no right any more, after one round, whatever was missing: a command, a key, a
// channel, or EVAL alone, which a server needs only for a script that it does not know yet.
func TestRealACLAdviceIsFollowed(t *testing.T) {
	t.Parallel()
	s := guarded(t, candidates, shipped(t, candidates))
	if _, err := doctor.Examine(t.Context(), as(t, candidates, s), doctor.Config{}); err != nil { // the server knows the script
		t.Fatal(err)
	}
	users := map[string]string{
		"nochannel": "~* +@all", "nokey": "~other:* &* +@all", "noeval": "~* &* +@all -eval", "noevalsha": "~* &* +@all -evalsha",
		"few": "~mandate:* +@read +@write +@connection", "nothing": "",
	}
	for all, i := shipped(t, candidates), 0; i < len(all); i++ { // each of them alone, but those of which docs/redis.md says that doctor can't
		if !slices.Contains([]string{"+mget", "+ping", "+unsubscribe"}, all[i]) {
			users[fmt.Sprint("no", i)] = strings.Join(slices.Concat(all[:i], all[i+1:]), " ")
		}
	}
	for user, rights := range users {
		t.Run(user, func(t *testing.T) {
			setting := append([]any{"ACL", "SETUSER", user, "reset", "on", ">x"}, asAny(rights)...)
			s.Do(t, setting...)
			q := open(t, "redis://"+user+":x@"+s.Addr())
			problems := func() (all []doctor.Finding) {
				found, err := doctor.Examine(t.Context(), q, doctor.Config{})
				must(t, err)
				return slices.DeleteFunc(found, func(f doctor.Finding) bool {
					return f.Check != "rights" && f.Check != "messages" || f.Level == doctor.LevelOK
				})
			}
			before := problems()
			if len(before) == 0 {
				t.Fatal("doctor complains of nothing")
			}
			_, line, _ := strings.Cut(before[0].Advice, ": ACL SETUSER ")
			line, _, found := strings.Cut(line, ";")
			if !found {
				t.Fatalf("no line to paste: %+v", before)
			}
			s.Do(t, append([]any{"ACL", "SETUSER"}, asAny(line)...)...)
			if after := problems(); len(after) > 0 {
				t.Errorf("pasted %q, and still: %+v", line, after)
			}
		})
	}
}

func asAny(line string) (all []any) {
	for _, w := range wordsOf(line) {
		all = append(all, w)
	}
	return all
}
