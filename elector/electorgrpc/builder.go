// Package electorgrpc lets gRPC clients follow the leader of an election: the target
// "mandate:///orders" resolves to the address that the leader of orders advertises.
//
//	conn, err := grpc.NewClient("mandate:///orders",
//		grpc.WithResolvers(electorgrpc.NewBuilder(quorum, electorgrpc.Config{})),
//		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), ...)
//
// When the leadership moves, the client connects to the new leader at once; RPCs under way at the
// former leader may finish there. While no candidate leads, RPCs with WaitForReady wait; others
// fail with codes.Unavailable and the reason.
//
// For a short time a client may still call a leader whose term has ended, so the server must refuse
// RPCs outside a term. If the server begins to listen in its work, and ends with
// grpc.Server.GracefulStop before the work returns, gRPC itself sends the refused RPCs to the next
// leader. If it always listens, and refuses RPCs under elector.Gate with codes.Unavailable, the
// client needs a retry policy. After a refused connection, such as by a leader that does not listen
// yet, gRPC waits for a second: shorten that with grpc.WithConnectParams.
//
// The client only needs the rights of a reader of the election (docs/redis.acl), and need not be a
// candidate. It trusts Redis: anyone who can write the lock can redirect it to another address.
// With TLS the server's certificate is checked against the name of the election, unless
// grpc.WithAuthority sets another name.
//
// No other package of mandate imports gRPC: a program that does not import this one does not
// link it.
package electorgrpc

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/resolver"

	"github.com/mandate-dev/mandate/elector"
)

// Scheme is the scheme of the targets: mandate:///ELECTION.
const Scheme = "mandate"

// Config configures how a client finds the leader's server. The zero value of a field means its default.
type Config struct {
	// Address returns the address of a leader's gRPC server, for leaders that advertise another one,
	// such as that of their HTTP server. RPCs fail with its error. It must not block. Default: what
	// the leader advertises, as host:port or as a URL (http://10.0.0.7:8080), whose path is ignored.
	Address func(advertised string) (hostPort string, err error)
}

// NewBuilder returns a builder whose resolvers resolve targets to the leaders of the elections on
// a Quorum, under its prefix (elector.Quorum.Namespace), for grpc.WithResolvers or
// resolver.Register. NewBuilder does no I/O. One builder serves any number of clients. Close them
// before the Quorum: once it is closed, they have no address.
//
// A client that is not idle (grpc.WithIdleTimeout) costs as much as a loop over Election.Observe: a
// goroutine or two, a share of the Quorum's one subscription, and a request to each node per lease
// while the leader does not change. When gRPC can't connect, the client also queries Redis, once
// per second at most. A target must name an election and have no authority: otherwise the
// client's RPCs fail with an error.
func NewBuilder(q *elector.Quorum, cfg Config) resolver.Builder {
	if cfg.Address == nil {
		cfg.Address = hostPort
	}
	return &builder{quorum: q, address: cfg.Address}
}

type builder struct {
	quorum  *elector.Quorum
	address func(string) (string, error)
}

func (b *builder) Scheme() string { return Scheme }

// Build returns a resolver. It does no I/O: the client gets its first state when Redis has answered.
func (b *builder) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	if b.quorum == nil {
		return nil, errors.New("electorgrpc: the quorum is nil: make one with elector.NewQuorum or elector.Open")
	}
	name, err := electionOf(target)
	if err != nil {
		return nil, err
	}
	election, err := b.quorum.Election(name)
	if err != nil {
		return nil, fmt.Errorf("electorgrpc: the target %s: %w", &target.URL, err)
	}
	return follow(election, cc, b.address), nil
}

// electionOf returns the election that a target names. It refuses a target with parts that would be
// ignored, because the client would follow another election than its author meant.
func electionOf(target resolver.Target) (string, error) {
	u := &target.URL
	switch {
	case u.Host != "" || u.User != nil:
		return "", fmt.Errorf("electorgrpc: the target %s has the authority %q: write mandate:///ELECTION with three slashes; the nodes are those of the Quorum", u, u.Host)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("electorgrpc: the target %s has a query or a fragment: write ? and # in the name of an election as %%3F and %%23", u)
	case target.Endpoint() == "":
		return "", fmt.Errorf("electorgrpc: the target %s names no election: write mandate:///ELECTION", u)
	}
	return target.Endpoint(), nil
}
