//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
)

// What the processes are told, by their environment.
const (
	roleEnv     = "MANDATE_CHAOS_ROLE"     // "worker", "job" or "member", or one of stormworker_test.go
	journalEnv  = "MANDATE_CHAOS_JOURNAL"  // a file
	registerEnv = "MANDATE_CHAOS_REGISTER" // an address
	idEnv       = "MANDATE_ID"
	tokenEnv    = "MANDATE_TOKEN"
	redisEnv    = "MANDATE_REDIS"
)

const lease = time.Second

func TestMain(m *testing.M) {
	logging.Disable()
	switch os.Getenv(roleEnv) {
	case "worker":
		os.Exit(workerMain())
	case "job":
		os.Exit(jobMain())
	case "member":
		os.Exit(memberMain())
	case "storm-worker":
		os.Exit(stormWorkerMain())
	case "storm-job":
		os.Exit(stormJobMain())
	case "storm-child":
		os.Exit(stormChildMain())
	}
	testleak.VerifyTestMain(m)
}

// process is what a candidate's process has in common, embedded or not.
type process struct {
	who      string
	journal  *Journal
	register *register
	command  bool
	ops      atomic.Int64
	sabotage bool
}

func newProcess(command bool) (*process, error) {
	j, err := OpenJournal(os.Getenv(journalEnv))
	if err != nil {
		return nil, err
	}
	p := &process{who: os.Getenv(idEnv), journal: j, register: openRegister(os.Getenv(registerEnv)), command: command, sabotage: os.Getenv(sabotageEnv) != ""}
	j.Write(Record{Kind: Start, Who: p.who, PID: os.Getpid()})
	return p, nil
}

// takePart runs a candidate on the servers that this process was told of, until SIGTERM, and returns the
// exit code.
func takePart(run func(ctx context.Context, q *elector.Quorum) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	q, err := elector.Open(strings.Split(os.Getenv(redisEnv), ",")...)
	if err == nil {
		err = run(ctx, q)
		_ = q.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// workerMain is an embedded worker: an Elector that takes part until SIGTERM.
func workerMain() int {
	return takePart(func(ctx context.Context, q *elector.Quorum) error {
		p, err := newProcess(false)
		if err != nil {
			return err
		}
		e, err := elector.New(q, elector.Config{
			Election: election, ID: p.who, Lease: lease, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		})
		if err != nil {
			return err
		}
		return e.Run(ctx, p.serve)
	})
}

// serve is the work of a term: it writes, and writes down what it believes.
func (p *process) serve(ctx context.Context, term *elector.Term) error {
	p.journal.Write(Record{Kind: Begin, Who: p.who, PID: os.Getpid(), Token: term.Token()})
	go p.sample(term.Token(), func() (valid, goOn bool) {
		// It is asked for a while after the end too: validity must not come back.
		return term.Valid() || p.sabotage, term.Err() == nil || time.Until(term.Deadline()) > -2*lease
	})
	for ctx.Err() == nil {
		p.write(term.Token())
		select {
		case <-ctx.Done():
		case <-time.After(25 * time.Millisecond):
		}
	}
	p.journal.Write(Record{Kind: End, Who: p.who, PID: os.Getpid(), Token: term.Token()})
	go p.straggle(term.Token())
	return nil
}

// straggle is a goroutine that the work forgot: it writes when its term is over.
func (p *process) straggle(token uint64) {
	for range 3 {
		time.Sleep(rand.N(2 * lease / 3))
		p.write(token)
	}
}

func (p *process) sample(token uint64, ask func() (valid, goOn bool)) {
	for goOn, valid := true, false; goOn; time.Sleep(4 * time.Millisecond) {
		before := Now()
		valid, goOn = ask()
		if after := Now(); valid {
			p.journal.Write(Record{Kind: Valid, At: before, Until: after, Who: p.who, PID: os.Getpid(), Token: token, Command: p.command})
		}
	}
}

func (p *process) write(token uint64) {
	op := int(p.ops.Add(1))
	name := registerAt(Now())
	value := fmt.Sprintf("%d/%d/%d", token, os.Getpid(), op)
	p.journal.Write(Record{Kind: Call, Who: p.who, PID: os.Getpid(), Op: op, Token: token, Register: name, Value: value})
	write := p.register.write
	if p.sabotage {
		write = p.register.writeUnfenced
	}
	result := write(name, token, value)
	p.journal.Write(Record{Kind: Reply, Who: p.who, PID: os.Getpid(), Op: op, Result: result})
}

// jobMain is the command of mandate run. It believes to lead as long as it runs.
func jobMain() int {
	p, err := newProcess(true)
	token, err2 := strconv.ParseUint(os.Getenv(tokenEnv), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // the test itself is gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	p.journal.Write(Record{Kind: Begin, Who: p.who, PID: os.Getpid(), Token: token, Command: true})
	go p.sample(token, func() (valid, goOn bool) { return true, true })
	for ctx.Err() == nil {
		p.write(token)
		select {
		case <-ctx.Done():
		case <-time.After(25 * time.Millisecond):
		}
	}
	p.journal.Write(Record{Kind: End, Who: p.who, PID: os.Getpid(), Token: token})
	return 0
}

// register is the fenced resource: a Redis that is left in peace.
type register struct{ c *redis.Client }

// A hidden retry would make a refusal of what was applied before.
func openRegister(addr string) *register {
	return &register{redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true})}
}

// registerAt names the register in use at a time: a new one every so often, so
// that the history of each stays short enough to be checked.
func registerAt(at time.Duration) string { return fmt.Sprintf("{register-%d}", at/(30*time.Second)) }

var store = fence.NewScript("return redis.call('SET', KEYS[1], ARGV[1])")

func (r *register) write(name string, token uint64, value string) string {
	f, err := fence.NewRedis(r.c, name+":mark")
	if err != nil {
		return Lost
	}
	switch err := f.Run(context.Background(), token, store, []string{name + ":value"}, value).Err(); {
	case err == nil:
		return Applied
	case errors.Is(err, fence.ErrStale):
		return Refused
	default:
		return Lost
	}
}

func (r *register) writeUnfenced(name string, _ uint64, value string) string {
	if r.c.Set(context.Background(), name+":value", value, 0).Err() != nil {
		return Lost
	}
	return Applied
}

func (r *register) read(name string) (string, error) {
	v, err := r.c.Get(context.Background(), name+":value").Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return v, err
}
