package rivals

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// A floor is the plainest program that hands a lock over: a subscription and a connection
// for requests per candidate, and one goroutine. The holder deletes the lock and publishes
// who is next in one step, and that candidate claims. Nothing is renewed, probed, recorded
// or tried again. What a library takes beyond that is its own.
type floor interface {
	awaitTurn(ctx context.Context) error // blocks until a message names the candidate
	claim(ctx context.Context) (won bool, err error)
	release(ctx context.Context, next string) error
}

const (
	validity = 10 * time.Second
	validFor = "10000" // the same in milliseconds
)

// connect makes the candidate of a name.
type connect func(candidate string) floor

// floorTerms runs the candidates of a floor.
func floorTerms(ctx context.Context, b *testing.B, connect connect) <-chan term {
	b.Helper()
	terms, done := make(chan term, candidates), make(chan error, candidates)
	for i := range candidates {
		f := connect(strconv.Itoa(i))
		next := strconv.Itoa((i + 1) % candidates)
		go func() {
			err := serveFloor(ctx, f, next, terms)
			if ctx.Err() != nil {
				err = nil
			}
			done <- err
		}()
	}
	b.Cleanup(func() { await(b, done) })
	return terms
}

func serveFloor(ctx context.Context, f floor, next string, terms chan<- term) error {
	for {
		won, err := f.claim(ctx)
		if err != nil {
			return err
		}
		if won {
			ended := make(chan struct{})
			terms <- term{time.Now(), func() { close(ended) }}
			select {
			case <-ended:
			case <-ctx.Done():
				return nil
			}
			if err := f.release(ctx, next); err != nil {
				return err
			}
		}
		if err := f.awaitTurn(ctx); err != nil {
			return err
		}
	}
}

// goRedis is a floor with go-redis, the client that elector uses.
type goRedis struct {
	*redis.Client
	turns

	name                 string
	lock, fence, channel string
}

func newGoRedis(b *testing.B, server *servertest.Server, kind, candidate string) goRedis {
	b.Helper()
	f := goRedis{
		Client: redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true}),
		name:   candidate, lock: kind + ":lock", fence: kind + ":fence", channel: kind + ":wake",
	}
	b.Cleanup(func() { _ = f.Close() })
	f.turns = subscribe(b, f.Subscribe(b.Context(), f.channel), func(payload string) bool { return payload == f.name })
	return f
}

// turns is a subscription that waits for the messages which name a candidate.
type turns struct {
	*redis.PubSub

	mine func(payload string) bool
}

func subscribe(b *testing.B, ps *redis.PubSub, mine func(string) bool) turns {
	b.Helper()
	b.Cleanup(func() { _ = ps.Close() })
	if _, err := ps.Receive(b.Context()); err != nil {
		b.Fatal(err)
	}
	return turns{ps, mine}
}

func (t turns) awaitTurn(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = t.PubSub.Close() }) // go-redis does not watch ctx
	defer stop()
	for {
		m, err := t.ReceiveMessage(ctx)
		if err != nil || t.mine(m.Payload) {
			return err
		}
	}
}

// plain has no scripts, and so neither a token nor a release that looks whose the lock is.
type plain struct{ goRedis }

func newPlain(b *testing.B, server *servertest.Server) connect {
	return func(candidate string) floor { return plain{newGoRedis(b, server, "commands", candidate)} }
}

func (f plain) claim(ctx context.Context) (bool, error) {
	return f.SetNX(ctx, f.lock, f.name, validity).Result()
}

func (f plain) release(ctx context.Context, next string) error {
	_, err := f.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, f.lock)
		p.Publish(ctx, f.channel, next)
		return nil
	})
	return err
}

// scripted does each step in a script: a claim hands out a token, and a release deletes
// only its own lock.
type scripted struct{ goRedis }

func newScripted(b *testing.B, server *servertest.Server) connect {
	return func(candidate string) floor { return scripted{newGoRedis(b, server, "scripts", candidate)} }
}

var (
	claimScript = redis.NewScript(`
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
return redis.call('INCR', KEYS[2])`)
	releaseScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 1`)
)

func (f scripted) claim(ctx context.Context) (bool, error) {
	token, err := claimScript.Run(ctx, f, []string{f.lock, f.fence}, f.name, validFor).Int()
	return token > 0, err
}

func (f scripted) release(ctx context.Context, next string) error {
	return releaseScript.Run(ctx, f, []string{f.lock}, f.name, f.channel, next).Err()
}

// plainRueidis is plain with rueidislock's client.
type plainRueidis struct {
	rueidis.Client

	turn    chan struct{}
	name    string
	lock    string
	channel string
}

func newPlainRueidis(ctx context.Context, b *testing.B, server *servertest.Server) connect {
	return func(candidate string) floor {
		f := plainRueidis{
			Client: newRueidis(b, server), turn: make(chan struct{}, 1),
			name: candidate, lock: "rueidis:lock", channel: "rueidis:wake",
		}
		sub := newRueidis(b, server)
		go func() {
			_ = sub.Receive(ctx, sub.B().Subscribe().Channel(f.channel).Build(), func(m rueidis.PubSubMessage) {
				if m.Message == f.name {
					f.turn <- struct{}{}
				}
			})
		}()
		return f
	}
}

func newRueidis(b *testing.B, server *servertest.Server) rueidis.Client {
	b.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func (f plainRueidis) awaitTurn(ctx context.Context) error {
	select {
	case <-f.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f plainRueidis) claim(ctx context.Context) (bool, error) {
	err := f.Do(ctx, f.B().Set().Key(f.lock).Value(f.name).Nx().Px(validity).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

func (f plainRueidis) release(ctx context.Context, next string) error {
	for _, r := range f.DoMulti(ctx, f.B().Multi().Build(), f.B().Del().Key(f.lock).Build(),
		f.B().Publish().Channel(f.channel).Message(next).Build(), f.B().Exec().Build()) {
		if err := r.Error(); err != nil {
			return err
		}
	}
	return nil
}

// voting casts the votes as elector does (its scripts, its connections, redsync), without
// the state machine. As there, a candidate that a claim refuses is named as the next.
type voting struct {
	turns

	voter *quorum.Voter
	token *uint64
}

func newVoting(b *testing.B, server *servertest.Server) connect {
	return func(candidate string) floor {
		c := server.Client(b)
		nodes, err := quorum.Open([]redis.UniversalClient{c})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(nodes.Close)
		keys := protocol.KeysOf("mandate", "quorum")
		f := voting{token: new(uint64), voter: quorum.NewVoter(nodes, quorum.VoterConfig{
			Keys: keys, Candidate: candidate, Incarnation: "incarnation" + candidate,
			Advertise: func() string { return "" }, Lease: validity, CallTimeout: time.Second,
		})}
		wake := nodes.Subscription(0)
		if err := wake.Subscribe(b.Context(), keys.Wake); err != nil {
			b.Fatal(err)
		}
		f.turns = subscribe(b, wake, func(payload string) bool {
			m, ok := protocol.ParseWakeMessage(payload)
			return ok && !m.Elected && m.First == "incarnation"+candidate
		})
		return f
	}
}

func (f voting) claim(ctx context.Context) (bool, error) {
	token, tally := f.voter.Claim(ctx, uint64(time.Now().UnixMilli()), nil)
	if tally.Count(protocol.Abstains) == 1 { // the first claim of the election
		token, tally = f.voter.Claim(ctx, 0, []string{tally.Answers[0].Note})
	}
	*f.token = token
	return token != 0, errors.Join(tally.Errors()...)
}

func (f voting) release(context.Context, string) error {
	r := f.voter.Releasing(*f.token, protocol.Heir{})
	return errors.Join(r.Try(validity).Errors()...)
}

func (f voting) awaitTurn(ctx context.Context) error {
	time.Sleep(2 * time.Millisecond) // the one that was named has claimed, as a rule
	won, err := f.claim(ctx)
	if won || err != nil { // the next claim takes what this one holds
		return err
	}
	return f.turns.awaitTurn(ctx)
}
