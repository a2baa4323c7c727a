package health

import "context"

// SQL returns a probe that pings a database; db is usually a *sql.DB. The ping takes a
// connection from the pool of db, so a pool that the application has exhausted also fails
// it. Only ctx bounds the time, and drivers differ in how soon they notice.
func SQL(db interface {
	PingContext(ctx context.Context) error
},
) Probe {
	return Func(func(ctx context.Context) error { return db.PingContext(ctx) })
}

// Redis returns a probe that sends PING, given the Ping method of a go-redis client of any
// kind:
//
//	probe := health.Redis(client.Ping)
//
// go-redis applies the deadline of ctx to its sockets only with
// Options.ContextTimeoutEnabled; without it, its ReadTimeout (3 s or more) is what ends
// a hung ping. Use it for the Redis that the work uses: the election watches the Redis that
// holds it.
func Redis[C interface{ Err() error }](ping func(context.Context) C) Probe {
	return Func(func(ctx context.Context) error { return ping(ctx).Err() })
}
