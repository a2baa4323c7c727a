package main

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/mandate-dev/mandate/elector"
)

// register stands for what protoc generates, such as pb.RegisterOrdersServer.
var register = func(grpc.ServiceRegistrar) {}

// serve answers calls while it leads. By the standard health service clients find the leader.
func serve(ctx context.Context, q *elector.Quorum) error {
	e, err := elector.New(q, elector.Config{Election: "orders-server", Lease: lease})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	var gate elector.Gate // the lock is released only when all calls have returned
	leads := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
		err = gate.Do(ctx, func(ctx context.Context, _ *elector.Term) error {
			answer, err = handle(ctx, request)
			return err
		})
		if errors.Is(err, elector.ErrNotLeader) {
			err = status.Error(codes.Unavailable, err.Error())
		}
		return answer, err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(leads))
	register(server)
	healthy := health.NewServer()
	healthy.SetServingStatus("orders", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(server, healthy)
	go server.Serve(listener) //nolint:errcheck // until Stop
	defer server.Stop()
	return e.Run(ctx, func(ctx context.Context, term *elector.Term) error {
		healthy.SetServingStatus("orders", grpc_health_v1.HealthCheckResponse_SERVING)
		defer healthy.SetServingStatus("orders", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		return gate.Work(ctx, term)
	})
}
