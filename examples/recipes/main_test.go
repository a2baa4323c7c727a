//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/examples/internal/exampletest"
)

func TestMain(m *testing.M) {
	register = func(server grpc.ServiceRegistrar) { server.RegisterService(&orders, nil) }
	exampletest.Main(m, main)
}

// orders is the service of the recipe for gRPC.
var orders = grpc.ServiceDesc{ServiceName: "Orders", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Take", Handler: take}}}

func take(_ any, ctx context.Context, _ func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	return intercept(ctx, nil, nil, func(ctx context.Context, _ any) (any, error) {
		return &emptypb.Empty{}, step(ctx, elector.TermOf(ctx).Token())
	})
}

var must = servertest.Must

const short = time.Second // the lease

// host runs a program again and again, as cron does, or Kubernetes when it has ended.
type host struct {
	log     servertest.Logbook
	process atomic.Pointer[os.Process]
}

func (h *host) run(ctx context.Context, t *testing.T, ends bool, args []string) {
	for ctx.Err() == nil {
		cmd := exec.CommandContext(ctx, os.Args[0], args...)
		cmd.Stderr, cmd.WaitDelay = &h.log, 20*time.Second
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		if err := cmd.Start(); err != nil {
			t.Error(err)
			return
		}
		h.process.Store(cmd.Process)
		err := cmd.Wait()
		if stopped := ctx.Err() != nil; !ends && !stopped || stopped && err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%v ended: %v\n%s", args, err, &h.log)
		}
		time.Sleep(short / 10)
	}
}

// newest returns the newest token under which a program has logged that it works, and, once it has done so twice, where.
func newest(all []*host, works string) (token uint64, leader *os.Process) {
	worked := regexp.MustCompile("msg=" + works + ` .*token=(\d+)`)
	for _, h := range all {
		for _, m := range worked.FindAllStringSubmatch(h.log.String(), -1) {
			switch of, _ := strconv.ParseUint(m[1], 10, 64); {
			case of > token:
				token, leader = of, nil
			case of == token:
				leader = h.process.Load()
			}
		}
	}
	return token, leader
}

// Each recipe works again, under a newer token, after its leader was replaced twice (so that the first one leads again),
// suspended for longer than its lease, and after Redis was away. What may be started once ends with its lease instead.
func TestRecipesWorkAgainReal(t *testing.T) {
	servertest.NeedRedis(t)
	for _, of := range []struct {
		program, election, works string // works: what it logs at each step
		ends                     bool   // the program, with its work
	}{
		{"service", "mailer", "working", false},
		{"schedule", "nightly", "running", false}, // the jobs
		{"schedule", "nightly", "working", false}, // the work beside them
		{"postgres", "orders", "working", false},
		{"controller", "controller", "working", true},
		{"grpc", "orders-server", "working", false},
	} {
		t.Run(of.program+" "+of.works, func(t *testing.T) {
			t.Parallel()
			server := servertest.Redis(t, "--appendonly", "yes")
			args := []string{"--lease", short.String(), "--redis", server.URL()}
			addresses := []string{"127.0.0.1:" + strconv.Itoa(servertest.FreePort(t)), "127.0.0.1:" + strconv.Itoa(servertest.FreePort(t))}
			suspend := func(leader *os.Process) { must(t, leader.Signal(syscall.SIGSTOP)) }
			fail := func() {}
			switch of.program {
			case "postgres":
				url := servertest.Postgres(t)
				args = append(args, "--database", url)
				fail, suspend = onPostgres(t, url)
			case "grpc":
				call(t, addresses)
			}
			all, running := []*host{{}, {}}, sync.WaitGroup{}
			defer running.Wait()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			for i, h := range all {
				running.Go(func() { h.run(ctx, t, of.ends, slices.Concat(args, []string{"--listen", addresses[i], of.program})) })
			}
			q, err := elector.Open(server.URL())
			must(t, err)
			defer q.Close()
			election, err := q.Election(of.election)
			must(t, err)

			worksAgain := func(after uint64) (token uint64, leader *os.Process) {
				t.Helper()
				servertest.Poll(t, 20*time.Millisecond, time.Minute, "the next term's work", func() bool {
					token, leader = newest(all, of.works)
					return token > after && leader != nil
				})
				return token, leader
			}
			token, leader := worksAgain(0)
			fail()
			for range 2 {
				if _, _, err := election.StepDown(ctx, "test"); err != nil {
					t.Error(err)
				}
				token, leader = worksAgain(token)
			}
			suspend(leader)
			time.Sleep(3 * short / 2)
			token, _ = worksAgain(token)
			must(t, leader.Signal(syscall.SIGCONT))
			server.Kill()
			time.Sleep(3 * short)
			server.Restart(t)
			worksAgain(token)
		})
	}
}

// onPostgres returns what befalls the recipe for PostgreSQL.
func onPostgres(t *testing.T, url string) (fail func(), suspend func(leader *os.Process)) {
	db, err := sql.Open("pgx", url)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	exec := func(in fence.Tx, query string) {
		_, err := in.ExecContext(t.Context(), query)
		must(t, err)
	}
	count := func(in fence.Tx, query string) (n int) {
		must(t, in.QueryRowContext(t.Context(), query).Scan(&n))
		return n
	}
	exec(db, "CREATE TABLE orders (token BIGINT)")
	// A transaction fails, after which the same term goes on. Then a newer leader writes, which ends the term.
	fail = func() {
		exec(db, "ALTER TABLE orders RENAME TO away")
		time.Sleep(1500 * time.Millisecond)
		exec(db, "ALTER TABLE away RENAME TO orders")
		before := count(db, "SELECT count(*) FROM orders")
		servertest.Eventually(t, time.Minute, "the leader goes on", func() bool { return count(db, "SELECT count(*) FROM orders") >= before+2 })
		if n := count(db, "SELECT count(DISTINCT token) FROM orders"); n != 1 {
			t.Errorf("an error ended a term: %d terms", n)
		}
		exec(db, "UPDATE mandate_fence SET token = token + 1")
		servertest.Eventually(t, time.Minute, "the next term writes", func() bool { return count(db, "SELECT count(DISTINCT token) FROM orders") == 2 })
	}
	// The leader is suspended within a transaction, when it has the lock of the fence.
	suspend = func(leader *os.Process) {
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		exec(tx, "LOCK TABLE orders IN SHARE MODE")
		servertest.Eventually(t, time.Minute, "the leader waits with its INSERT", func() bool {
			return count(tx, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'orders'::regclass") > 0
		})
		must(t, leader.Signal(syscall.SIGSTOP))
		must(t, tx.Commit())
	}
	return fail, suspend
}

// call calls the candidates as a client that finds the leader by gRPC's own means.
func call(t *testing.T, addresses []string) {
	candidates := manual.NewBuilderWithScheme("candidates")
	candidates.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: addresses[0]}, {Addr: addresses[1]}}})
	resolver.Register(candidates)
	conn, err := grpc.NewClient("candidates:///orders", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": "orders"}}`))
	must(t, err)
	var calling sync.WaitGroup
	calling.Go(func() {
		for t.Context().Err() == nil {
			ctx, cancel := context.WithTimeout(t.Context(), short)
			_ = conn.Invoke(ctx, "/Orders/Take", &emptypb.Empty{}, &emptypb.Empty{}) // what succeeds is in the leader's log
			cancel()
			time.Sleep(short / 20)
		}
	})
	t.Cleanup(func() {
		calling.Wait()
		conn.Close()
	})
}
