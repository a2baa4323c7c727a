package registry

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// CordonFacts are what a user may do with the history of the cordons on a node.
type CordonFacts struct {
	History    string // the key
	ReadErr    error
	WriteErr   error  // of a user that may cordon: why that would not be recorded
	WriteGrant string // the line for the server that grants it
}

// inspectCordons tries the requests of those who cordon, and of those who read that later, without a change.
// An entry with the id 0-0 is refused by its id, once the server has checked the right; and no id of a candidate is a space.
func inspectCordons(ctx context.Context, rdb redis.UniversalClient, prefix string) (f CordonFacts) {
	f.History = protocol.KeysOfCordons(prefix).History
	f.ReadErr = rdb.XRevRangeN(ctx, f.History, "+", "-", 1).Err()
	if rediserr.Denied(rdb.HDel(ctx, protocol.CordonsKey(prefix), " ").Err()) { // it may not cordon
		return f
	}
	err := rdb.XAdd(ctx, &redis.XAddArgs{Stream: f.History, NoMkStream: true, ID: "0-0", Values: []string{"event", ""}}).Err()
	if rediserr.Denied(err) {
		f.WriteErr = rediserr.Needs(err, "+xadd ~"+f.History)
		f.WriteGrant = rediserr.Grant(rediserr.UserOf(rdb), f.WriteErr)
	}
	return f
}
