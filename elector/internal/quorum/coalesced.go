package quorum

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

type message struct {
	channel string
	payload []byte
}

// publishing returns a function that publishes messages in one pipeline, for a coalescer.
func publishing(rdb redis.UniversalClient) func(context.Context, []message) ([]struct{}, []error) {
	return func(ctx context.Context, all []message) ([]struct{}, []error) {
		p, sent, errs := rdb.Pipeline(), make([]*redis.IntCmd, len(all)), make([]error, len(all))
		for i, m := range all {
			sent[i] = p.Publish(ctx, m.channel, m.payload)
		}
		_, _ = p.Exec(ctx) // each command has its own error
		for i, m := range all {
			errs[i] = rediserr.Needs(sent[i].Err(), "+publish &"+m.channel)
		}
		return make([]struct{}, len(all)), errs
	}
}

// counting returns a function that counts the subscribers of channels in one command, for
// transport.Coalescer.
func counting(rdb redis.UniversalClient) func(context.Context, []string) ([]int, []error) {
	return func(ctx context.Context, channels []string) ([]int, []error) {
		found, err := rdb.PubSubNumSub(ctx, channels...).Result()
		counts, errs := make([]int, len(channels)), make([]error, len(channels))
		for i, channel := range channels {
			counts[i], errs[i] = int(found[channel]), err
		}
		return counts, errs
	}
}
