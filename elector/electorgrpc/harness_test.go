package electorgrpc_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorgrpc"
	"github.com/mandate-dev/mandate/elector/electortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const lease = 4 * time.Second

// stage is an election, and the network in memory between its clients and its candidates' servers.
type stage struct {
	t     *testing.T
	redis *electortest.Redis

	mu     sync.Mutex
	listen map[string]*bufconn.Listener // by address
	dialed map[string]int
}

func bubble(t *testing.T, f func(t *testing.T, s *stage)) {
	t.Helper()
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		f(t, &stage{t: t, redis: r, listen: map[string]*bufconn.Listener{}, dialed: map[string]int{}})
	})
}

// server answers with its candidate's name.
type server struct {
	healthpb.UnimplementedHealthServer
	name string
}

func (s server) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	return &healthpb.HealthCheckResponse{}, grpc.SetHeader(ctx, metadata.Pairs("served-by", s.name))
}

func (s *stage) candidate(who, address string) *elector.Elector {
	s.t.Helper()
	e, err := elector.New(s.redis.Quorum(who), elector.Config{
		Election: "orders", ID: who, Advertise: address, Lease: lease, Cooldown: time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

// start runs a candidate that serves at name:1 during its terms.
func (s *stage) start(who, address string) *elector.Elector {
	s.t.Helper()
	e := s.candidate(who, address)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = e.Run(ctx, s.serve(who)) })
	s.t.Cleanup(func() { cancel(); wg.Wait() })
	return e
}

func (s *stage) serve(who string) elector.Work {
	return func(ctx context.Context, _ *elector.Term) error {
		l := bufconn.Listen(1 << 16)
		srv := grpc.NewServer()
		healthpb.RegisterHealthServer(srv, server{name: who})
		s.mu.Lock()
		s.listen[who+":1"] = l
		s.mu.Unlock()
		defer context.AfterFunc(ctx, srv.GracefulStop)()
		return srv.Serve(l) // returns after GracefulStop
	}
}

func (s *stage) dial(ctx context.Context, address string) (net.Conn, error) {
	s.mu.Lock()
	l := s.listen[address]
	s.dialed[address]++
	s.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	return l.DialContext(ctx)
}

func (s *stage) dials(address string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dialed[address]
}

func (s *stage) client(target string, cfg electorgrpc.Config) *grpc.ClientConn {
	s.t.Helper()
	return s.clientOn(s.redis.Quorum("client"), target, cfg)
}

func (s *stage) clientOn(q *elector.Quorum, target string, cfg electorgrpc.Config) *grpc.ClientConn {
	s.t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithResolvers(electorgrpc.NewBuilder(q, cfg)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}}),
		grpc.WithContextDialer(s.dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call is who answers an RPC.
func call(t *testing.T, conn *grpc.ClientConn, opts ...grpc.CallOption) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*lease)
	defer cancel()
	var header metadata.MD
	_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, append(opts, grpc.Header(&header))...)
	if by := header.Get("served-by"); len(by) == 1 {
		return by[0], err
	}
	return "", err
}

func wantCall(t *testing.T, conn *grpc.ClientConn, who string) {
	t.Helper()
	if by, err := call(t, conn, grpc.WaitForReady(true)); by != who || err != nil {
		t.Fatalf("%q answers, %v, want %q", by, err, who)
	}
}

func wantUnavailable(t *testing.T, conn *grpc.ClientConn) string {
	t.Helper()
	by, err := call(t, conn)
	if status.Code(err) != codes.Unavailable {
		t.Fatalf("%q answers, %v, want Unavailable", by, err)
	}
	return status.Convert(err).Message()
}

// recorder is the client of a resolver without gRPC around it.
type recorder struct {
	resolver.ClientConn
	resolver.Resolver

	mu     sync.Mutex
	states []string // an address, or the error
}

func (r *recorder) UpdateState(st resolver.State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range st.Addresses {
		r.states = append(r.states, a.Addr)
	}
	return nil
}

func (r *recorder) ReportError(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states = append(r.states, err.Error())
}

func (r *recorder) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{""}, r.states...)[len(r.states)]
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.states)
}

func (s *stage) resolver(q *elector.Quorum) *recorder {
	s.t.Helper()
	r := &recorder{}
	var err error
	r.Resolver, err = electorgrpc.NewBuilder(q, electorgrpc.Config{}).Build(resolver.Target{URL: url.URL{Scheme: electorgrpc.Scheme, Path: "/orders"}}, r, resolver.BuildOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(r.Close)
	return r
}

// counted is a Quorum that counts what is sent to Redis.
func (s *stage) counted(sent *atomic.Int64) *elector.Quorum {
	s.t.Helper()
	opts := *s.redis.Client("counted").Options()
	dial := opts.Dialer
	opts.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return countedConn{c, sent}, err
	}
	client := redis.NewClient(&opts)
	q, err := elector.NewQuorum(client)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = q.Close(); _ = client.Close() })
	return q
}

type countedConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(b)
}
