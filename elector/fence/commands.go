package fence

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// attempts bounds how often Pipelined tries a transaction because the mark changed while it
// was watched. Each term changes the mark once, so one attempt is nearly always enough.
const attempts = 10

// Pipelined runs the commands that fn records, unless the token is older than the mark, and
// raises the mark, in one transaction: it watches the mark (WATCH), and sends all commands in one
// MULTI/EXEC, so that either all of them are run or none. It takes three round trips, where
// [Redis.Run] takes one.
//
// Pipelined calls fn once. fn only records commands, and must not call Exec. The returned
// commands have their results. The error is a [*StaleError] when the token was refused and
// nothing was written, otherwise the first error of a command. When a command fails while it is
// run, Redis does not undo the others.
func (r *Redis) Pipelined(ctx context.Context, token uint64, fn func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	if err := checkToken(token); err != nil {
		return nil, err
	}
	record := r.client.TxPipeline()
	defer record.Discard()
	if err := fn(record); err != nil {
		return nil, err
	}
	cmds := record.Cmds()
	if err := checkSlots(r.client, r.mark, keysOf(cmds)); err != nil {
		return nil, err
	}
	for range attempts {
		err := r.client.Watch(ctx, func(tx *redis.Tx) error { return r.transact(ctx, tx, token, cmds) }, r.mark)
		if !errors.Is(err, redis.TxFailedErr) {
			return cmds, r.explain(err, token)
		}
	}
	return cmds, fmt.Errorf("fence: %s moved %d times while the commands were tried: nothing was written", r.mark, attempts)
}

// transact makes one attempt. The caller watches the mark.
func (r *Redis) transact(ctx context.Context, tx *redis.Tx, token uint64, cmds []redis.Cmder) error {
	mark, err := r.read(ctx, tx, token)
	if err != nil {
		return err
	}
	_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		if r.access == "raise" && mark != strconv.FormatUint(token, 10) {
			pipe.Set(ctx, r.mark, token, 0)
		}
		for _, cmd := range cmds {
			if err := pipe.Process(ctx, cmd); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// read returns the mark, or an error if the mark refuses the token.
func (r *Redis) read(ctx context.Context, tx *redis.Tx, token uint64) (string, error) {
	mark, err := tx.Get(ctx, r.mark).Result()
	missing := err == redis.Nil //nolint:errorlint // a sentinel that knows no master says the same, in an error of the connection
	switch {
	case missing && r.access == "raise":
		return "", nil
	case missing:
		return "", r.missing()
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return "", r.anotherType(token)
	case err != nil:
		return "", err
	}
	return mark, judge(r.mark, mark, token)
}
