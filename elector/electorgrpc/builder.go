// Package electorgrpc lets gRPC clients follow the leader of an election: the target
// "mandate:///orders" stands for the address that the leader of orders advertises.
//
//	conn, err := grpc.NewClient("mandate:///orders",
//		grpc.WithResolvers(electorgrpc.NewBuilder(quorum, electorgrpc.Config{})),
//		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), ...)
//
// When the leadership moves, the client connects to the new leader at once; RPCs under way at the
// former one may end there. While no candidate leads, RPCs that wait for ready wait; others fail
// with codes.Unavailable and the reason.
//
// For a short time a client may still call a leader whose term has ended, so the server must refuse
// what comes outside a term. If it begins to listen in its work and ends with grpc.Server.GracefulStop
// before the work returns, gRPC itself sends what was refused to the next leader. If it listens
// all the time and refuses under elector.Gate with codes.Unavailable, the client needs a retry policy. gRPC waits
// for a second after a connection was refused, as by a leader that is about to listen: shorten that
// with grpc.WithConnectParams.
//
// The client needs the rights of a reader of the election only (docs/redis.acl), and it need not be a
// candidate. It trusts Redis: anyone who can write the lock can name an address. With TLS the
// certificate decides; the name that it is checked against is that of the election, unless
// grpc.WithAuthority gives another.
//
// It is the only importer of gRPC; a program that does not import it links nothing of it.
package electorgrpc

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/resolver"

	"github.com/mandate-dev/mandate/elector"
)

// Scheme is that of the targets: mandate:///ELECTION.
const Scheme = "mandate"

// Config is how a client finds the leader's server. The zero value of a field means its default.
type Config struct {
	// Address returns where the gRPC server of a leader is that advertises something else, such as
	// its server for HTTP; an error becomes that of the RPCs. It must not block. Default: what the leader
	// advertises, as host:port or as the URL of one (http://10.0.0.7:8080), whose path is ignored.
	Address func(advertised string) (hostPort string, err error)
}

// NewBuilder returns what resolves targets to the leaders of the elections on a Quorum, under its
// prefix (elector.Quorum.Namespace), for grpc.WithResolvers or resolver.Register. It does no I/O. One
// builder serves any number of clients; close them before the Quorum, after which they have no
// address any more.
//
// A client that is not idle (grpc.WithIdleTimeout) costs what a loop over Election.Observe does: a goroutine or two, its
// share of the one subscription of the Quorum, and while the leader is steady a request to each node per lease. When gRPC
// can't connect, it queries Redis too, once per second at most. A target must name an election and have
// no authority: an error of that kind is that of the client's RPCs.
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

// Build does no I/O: the first state comes when Redis has answered.
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

// electionOf is the election that a target names. What would be lost on the way is refused: the
// client would follow another election than its author meant.
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
