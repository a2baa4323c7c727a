package electorgrpc_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorgrpc"
)

// A client whose RPCs go to the leader of orders, whichever replica that is.
func Example() {
	quorum, err := elector.Open("redis://127.0.0.1:6379")
	if err != nil {
		panic(err)
	}
	defer quorum.Close()
	conn, err := grpc.NewClient("mandate:///orders",
		grpc.WithResolvers(electorgrpc.NewBuilder(quorum, electorgrpc.Config{})),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), // while no candidate leads
		// A new leader's server may need a moment: gRPC's own delay begins with a second.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{
			BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
		}}),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	fmt.Println(answer, err)
}

// A replica that serves while it leads. RPCs that come when its term has ended are refused, and gRPC sends them
// to the next leader.
func Example_server() {
	quorum, err := elector.Open("redis://127.0.0.1:6379")
	if err != nil {
		panic(err)
	}
	defer quorum.Close()
	e, err := elector.New(quorum, elector.Config{Election: "orders", Advertise: "10.0.0.7:50051"})
	if err != nil {
		panic(err)
	}
	err = e.Run(context.Background(), func(ctx context.Context, _ *elector.Term) error {
		listener, err := net.Listen("tcp", ":50051")
		if err != nil {
			return err
		}
		server := grpc.NewServer()
		healthpb.RegisterHealthServer(server, health.NewServer())
		// RPCs under way may finish, but not after the lease: Stop cuts off those that take longer.
		defer context.AfterFunc(ctx, func() {
			defer time.AfterFunc(time.Second, server.Stop).Stop()
			server.GracefulStop()
		})()
		return server.Serve(listener) // returns when GracefulStop has
	})
	fmt.Println(err)
}
