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

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
)

// The keys of the queue share a hash tag, so that one script can use all of them, also on Redis
// Cluster.
const (
	queueKey      = "{poller}:queue"
	checkpointKey = "{poller}:checkpoint"
	markKey       = "{poller}:mark" // the newest token that has fed
	group         = "workers"
)

// queue is the stream, and the checkpoint that is updated together with it.
type queue struct {
	client redis.UniversalClient
	fence  *fence.Redis
}

func openQueue(url string) (*queue, error) {
	client, err := elector.NewClient(url)
	if err != nil {
		return nil, fmt.Errorf("the queue: %w", err)
	}
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
	// loadScript runs under the guard, too: once it has answered, no older leader can move the
	// checkpoint any more, so the checkpoint that it returns is current.
	loadScript = fence.NewScript(`return {redis.call('HGET', KEYS[1], 'batch') or '', redis.call('HGET', KEYS[1], 'state') or '{}'}`)
)

// position is the state of a leader's feeding.
type position struct {
	checkpoint checkpoint
	batch      string // the name of the last batch
}

// load begins a term: from then on the queue refuses all older tokens.
func (q *queue) load(ctx context.Context, token uint64) (*position, error) {
	answer, err := q.fence.Run(ctx, token, loadScript, []string{checkpointKey}).StringSlice()
	if err != nil {
		return nil, err
	}
	p := &position{batch: answer[0]}
	if err := json.Unmarshal([]byte(answer[1]), &p.checkpoint); err != nil {
		return nil, fmt.Errorf("the checkpoint in %s: %w", checkpointKey, err)
	}
	return p, nil
}

// errMoved means that the checkpoint is not the one that this leader has stored: it must be loaded
// again.
var errMoved = errors.New("the checkpoint has moved")

// feed adds events to the queue and moves the checkpoint from p to next. If the outcome is unknown,
// load returns the current position.
func (q *queue) feed(ctx context.Context, token uint64, p, next *position, events []event) error {
	state, err := json.Marshal(next.checkpoint)
	if err != nil {
		return err
	}
	args := []any{next.batch, p.batch, token, string(state)}
	for _, e := range events {
		args = append(args, e.ID, e.Type, e.Payload)
	}
	answer, err := q.fence.Run(ctx, token, feedScript, []string{queueKey, checkpointKey}, args...).Text()
	if err == nil && answer != "fed" {
		err = errMoved
	}
	return err
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
