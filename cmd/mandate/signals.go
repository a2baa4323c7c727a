package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// echo is how soon after the first signal another one counts as the same request. A wrapper that
// signals both this process and its group (timeout, npm) must not cause the command to be killed
// without its grace.
const echo = 500 * time.Millisecond

// onSignals has the first signal call stop, for a graceful shutdown, and the second one close
// force; effect is logged with it. SIGQUIT is what many images stop their program with; also are more
// signals that stop. The returned function stops the handling of signals.
func (a *app) onSignals(stop func(os.Signal), effect string, also ...os.Signal) (force <-chan struct{}, end func()) {
	again := make(chan struct{})
	sigs := make(chan os.Signal, 8)
	also = slices.DeleteFunc(also, signal.Ignored) // nohup makes this process ignore SIGHUP
	signal.Notify(sigs, append(also, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)...)
	go func() {
		var first time.Time
		for s := range sigs {
			switch {
			case first.IsZero():
				first = time.Now()
				stop(s) // before logging, which may be slow
				a.log.Info("shutting down", "signal", s.String())
			case time.Since(first) >= echo:
				close(again)
				a.log.Warn("second signal", "signal", s.String(), "effect", effect)
				return
			}
		}
	}()
	return again, func() {
		signal.Stop(sigs)
		close(sigs)
	}
}

// forcedRelease is how long a release may take after a second signal. It is enough on a busy
// machine: a lock that is not released keeps the other candidates waiting for its lease.
const forcedRelease = 2 * time.Second

// untilForced campaigns until that ends. After a second signal it waits until no work runs, and then
// for at most forcedRelease, and so never for an unreachable Redis.
func untilForced(force <-chan struct{}, ready func(), working sync.Locker, campaign func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- campaign() }()
	go ready()
	select {
	case err := <-ended:
		return err
	case <-force:
	}
	working.Lock()
	defer working.Unlock()
	select {
	case err := <-ended:
		return err
	case <-time.After(forcedRelease):
		return &exitError{code: exitNotReleased, err: errors.New("the lock was not released before the second signal; it lapses within a lease")}
	}
}

// systemd returns a function that tells systemd that this process campaigns (Type=notify), and then, if
// the unit has a WatchdogSec, again and again that it runs, as long as state returns, which systemctl status
// shows. Commands do not inherit the variables for that, nor those of its sockets: they are for this process.
func (a *app) systemd() (campaigns func()) {
	socket := &net.UnixAddr{Name: os.Getenv("NOTIFY_SOCKET"), Net: "unixgram"}
	watchdog, _ := strconv.Atoi(os.Getenv("WATCHDOG_USEC"))
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "LISTEN_PIDFDID"} {
		_ = os.Unsetenv(name)
	}
	return func() {
		if socket.Name == "" {
			return
		}
		conn, err := net.DialUnix(socket.Net, nil, socket)
		if err == nil {
			_, err = conn.Write([]byte("READY=1"))
		}
		if err != nil {
			a.log.Warn("cannot notify systemd", "error", err)
			return
		}
		every := 5 * time.Second
		if watchdog > 0 {
			every = min(every, time.Duration(watchdog)*time.Microsecond/3)
		}
		for ; ; time.Sleep(every) {
			_, _ = conn.Write([]byte("WATCHDOG=1\nSTATUS=" + a.state()))
		}
	}
}

// state is what systemctl status shows of this candidate, or member: one line.
func (a *app) state() string {
	if a.shardMember != nil {
		return fmt.Sprintf("owns %d of %d shards", len(a.shardMember.Owned()), a.shardMember.Shards())
	}
	if err := a.elector.Check(); err != nil {
		return strings.ReplaceAll(err.Error(), "\n", " ")
	}
	if a.elector.IsLeader() {
		return fmt.Sprintf("leads, token %d", a.elector.Term().Token())
	}
	return "stands by"
}

// untilSignal returns a context that the first SIGINT or SIGTERM ends. A second one ends the process.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
