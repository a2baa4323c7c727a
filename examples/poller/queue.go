package main

import (
	"context"
	_ "embed" // the script
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/fence"
)

// The queue's keys share a hash tag, so that one script can touch them all on
// Redis Cluster too.
const (
	queueKey      = "{poller}:queue"
	checkpointKey = "{poller}:checkpoint"
	termsKey      = "{poller}:terms" // the handovers seen
	markKey       = "{poller}:mark"  // the newest token that has fed
	group         = "workers"
)

// queue is the stream, and the checkpoint that moves with it.
type queue struct {
	client *redis.Client
	fence  *fence.Redis
}

func openQueue(url string) (*queue, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("the queue: not a Redis URL: write redis://[user:password@]host:port") // err may quote the password
	}
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	guard, err := fence.NewRedis(client, markKey)
	if err != nil {
		return nil, err
	}
	return &queue{client, guard}, nil
}

//go:embed feed.lua
var feedLua string

var (
	feedScript = fence.NewScript(feedLua)
	feedKeys   = []string{queueKey, checkpointKey, termsKey}
	// Under the guard too: when it has answered, no older leader can move the
	// checkpoint any more, so what it read is current.
	loadScript = fence.NewScript(`
		local t = redis.call('TIME')
		local got = redis.call('HMGET', KEYS[1], 'batch', 'state')
		return {got[1] or '', got[2] or '', t[1] * 1000 + math.floor(t[2] / 1000)}`)
)

// position is where a leader's feeding stands.
type position struct {
	checkpoint checkpoint
	batch      string // the name of the last batch
	clock      clock
}

// clock is the queue's time between two answers of it. Leaders on several
// machines take turns, and ages of gaps are compared by one clock only.
type clock struct{ theirs, ours time.Time }

func clockAt(ms int64) clock        { return clock{time.UnixMilli(ms), time.Now()} }
func (c clock) now() time.Time      { return c.theirs.Add(time.Since(c.ours)) }
func (q *queue) close()             { _ = q.client.Close() }
func unexpected(answer []any) error { return fmt.Errorf("the queue's script answered %v", answer) }

// load begins a term: all older tokens are refused from here on.
func (q *queue) load(ctx context.Context, token uint64) (position, error) {
	answer, err := q.fence.Run(ctx, token, loadScript, []string{checkpointKey}).Slice()
	if err != nil {
		return position{}, err
	}
	if len(answer) != 3 {
		return position{}, unexpected(answer)
	}
	var p position
	p.batch, _ = answer[0].(string)
	state, _ := answer[1].(string)
	now, _ := answer[2].(int64)
	p.clock = clockAt(now)
	if state != "" {
		if err := json.Unmarshal([]byte(state), &p.checkpoint); err != nil {
			return position{}, fmt.Errorf("the checkpoint in %s: %w", checkpointKey, err)
		}
	}
	return p, nil
}

// errMoved: the checkpoint is not where this leader left it; load it again.
var errMoved = errors.New("the checkpoint has moved")

// feed pushes events and moves the checkpoint. When its outcome is unknown, load
// tells: the position is changed only by success.
func (q *queue) feed(ctx context.Context, token uint64, worker, name string, p *position, next checkpoint, events []event) error {
	args, err := feedArgs(token, worker, name, p, next, events)
	if err != nil {
		return err
	}
	answer, err := q.fence.Run(ctx, token, feedScript, feedKeys, args...).Slice()
	if err != nil {
		return err
	}
	if len(answer) != 2 {
		return unexpected(answer)
	}
	if answer[0] == "moved" {
		return errMoved
	}
	now, _ := answer[1].(int64)
	p.checkpoint, p.batch, p.clock = next, name, clockAt(now)
	return nil
}

func feedArgs(token uint64, worker, name string, p *position, next checkpoint, events []event) ([]any, error) {
	state := ""
	if len(events) > 0 || len(next.Gaps) != len(p.checkpoint.Gaps) {
		b, err := json.Marshal(next)
		if err != nil {
			return nil, err
		}
		state = string(b)
	}
	args := make([]any, 0, 5+3*len(events))
	args = append(args, name, p.batch, token, worker, state)
	for _, e := range events {
		args = append(args, e.ID, e.Type, e.Payload)
	}
	return args, nil
}

// writable is a probe: can this worker write to the queue's Redis?
func (q *queue) writable(worker string) func(context.Context) error {
	return func(ctx context.Context) error {
		return q.client.Set(ctx, "{poller}:probe:"+worker, "", time.Minute).Err()
	}
}

// createGroup makes the stream and its consumer group, once for all.
func (q *queue) createGroup(ctx context.Context) error {
	err := q.client.XGroupCreateMkStream(ctx, queueKey, group, "0").Err()
	if err != nil && strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return nil
	}
	return err
}
