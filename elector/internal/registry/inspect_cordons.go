package registry

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// CordonFacts describes what a user may do with the history of the cordons on a node.
type CordonFacts struct {
	History    string // the key
	ReadErr    error
	WriteErr   error  // for a user that may cordon: why a cordon would not be recorded
	WriteGrant string // the command for the server that grants the missing right
}

// inspectCordons tries the requests that set a cordon and read its history, without changing
// anything: no candidate's id is a space, so HDEL removes nothing, and the server checks the right
// to XADD before it refuses an entry with the id 0-0.
func inspectCordons(ctx context.Context, rdb redis.UniversalClient, prefix string) (f CordonFacts) {
	f.History = protocol.KeysOfCordons(prefix).History
	f.ReadErr = rdb.XRevRangeN(ctx, f.History, "+", "-", 1).Err()
	if rediserr.Denied(rdb.HDel(ctx, protocol.CordonsKey(prefix), " ").Err()) { // the user may not cordon
		return f
	}
	err := rdb.XAdd(ctx, &redis.XAddArgs{Stream: f.History, NoMkStream: true, ID: "0-0", Values: []string{"event", ""}}).Err()
	if rediserr.Denied(err) {
		f.WriteErr = rediserr.Needs(err, "+xadd ~"+f.History)
		f.WriteGrant = rediserr.Grant(rediserr.UserOf(rdb), f.WriteErr)
	}
	return f
}
