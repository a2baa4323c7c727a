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

// The keys of the queue share a hash tag, so that one script can use all of them, also on Redis
// Cluster.
const (
	queueKey      = "{poller}:queue"
	checkpointKey = "{poller}:checkpoint"
	termsKey      = "{poller}:terms" // the handovers seen
	markKey       = "{poller}:mark"  // the newest token that has fed
	group         = "workers"
)

// queue is the stream, and the checkpoint that is updated together with it.
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
	// loadScript runs under the guard, too: once it has answered, no older leader can move the
	// checkpoint any more, so the checkpoint that it returns is current.
	loadScript = fence.NewScript(`
		local t = redis.call('TIME')
		local got = redis.call('HMGET', KEYS[1], 'batch', 'state')
		return {got[1] or '', got[2] or '', t[1] * 1000 + math.floor(t[2] / 1000)}`)
)

// position is the state of a leader's feeding.
type position struct {
	checkpoint checkpoint
	batch      string // the name of the last batch
	clock      clock
}

// clock estimates the time of the queue's server between two of its answers. Leaders run on
// different machines, so the ages of gaps are measured by this one clock.
type clock struct{ theirs, ours time.Time }

func clockAt(ms int64) clock        { return clock{time.UnixMilli(ms), time.Now()} }
func (c clock) now() time.Time      { return c.theirs.Add(time.Since(c.ours)) }
func (q *queue) close()             { _ = q.client.Close() }
func unexpected(answer []any) error { return fmt.Errorf("the queue's script answered %v", answer) }

// load begins a term: from then on the queue refuses all older tokens.
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

// errMoved means that the checkpoint is not the one that this leader has stored: it must be loaded
// again.
var errMoved = errors.New("the checkpoint has moved")

// feed adds events to the queue and moves the checkpoint. It changes p only if it succeeds; if the
// outcome is unknown, load returns the current position.
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

// writable returns a probe that checks whether this worker can write to the queue's Redis.
func (q *queue) writable(worker string) func(context.Context) error {
	return func(ctx context.Context) error {
		return q.client.Set(ctx, "{poller}:probe:"+worker, "", time.Minute).Err()
	}
}

// createGroup creates the stream and its consumer group, if they do not exist.
func (q *queue) createGroup(ctx context.Context) error {
	err := q.client.XGroupCreateMkStream(ctx, queueKey, group, "0").Err()
	if err != nil && strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return nil
	}
	return err
}
