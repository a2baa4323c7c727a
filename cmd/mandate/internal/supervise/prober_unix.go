//go:build unix

package supervise

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/rpc"
	"os"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/health"
)

// proberName is the name under which this program is started as a prober.
const proberName = "mandate-prober"

// Prober runs the shell commands of probes in a process of its own: while the execve of a shell hangs, Go's
// garbage collector can stop that process, and not this one, which renews a lease. If it is killed, the
// next check starts another one. Safe for concurrent use.
type Prober struct {
	mu     sync.Mutex
	client *rpc.Client // nil: not started
}

// Probe returns a probe that runs a shell command. The process is started now, and not while this one leads.
func (p *Prober) Probe(script string) health.Probe {
	_, _ = p.connect() // each check tries again
	return health.Func(func(ctx context.Context) error { return p.check(ctx, script) })
}

func (p *Prober) connect() (*rpc.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		return p.client, nil
	}
	cmd, err := program(proberName)
	if err != nil {
		return nil, err
	}
	requests, rerr := cmd.StdinPipe()
	answers, aerr := cmd.StdoutPipe()
	if err := cmp.Or(rerr, aerr, cmd.Start()); err != nil {
		return nil, err
	}
	go func() { _ = cmd.Wait() }()
	p.client = rpc.NewClient(stream{answers, requests})
	return p.client, nil
}

type stream struct {
	io.Reader
	io.WriteCloser
}

// check returns when the command has ended, which a deadline of ctx makes it do, or once its execve hangs no more:
// its runner starts no other meanwhile.
func (p *Prober) check(ctx context.Context, script string) error {
	client, err := p.connect()
	if err != nil {
		return err
	}
	limit, _ := ctx.Deadline()
	err = client.Call("shell.Run", Script{script, time.Until(limit)}, &struct{}{})
	if err != nil && !errors.As(err, new(rpc.ServerError)) { // the process was killed
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.client == client {
			p.client = nil
		}
	}
	return err
}

// Script is a shell command, and for how long it may run.
type Script struct {
	Text  string
	Limit time.Duration
}

type shell struct{}

func (shell) Run(s Script, _ *struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.Limit)
	defer cancel()
	return health.Command("sh", "-c", s.Text).Check(ctx)
}

// proberMain ends with mandate, and when no command is left.
func proberMain() {
	catchSignals()
	server := rpc.NewServer()
	_ = server.RegisterName("shell", shell{}) // it fits
	server.ServeConn(stream{os.Stdin, os.Stdout})
}
