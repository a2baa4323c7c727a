//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

// job is the command that a leader runs.
type job struct {
	candidate

	path     string
	argv     []string
	once     bool
	election string
	group    groupFlags // instead of election
	http     string     // URL where the command can query the leader; empty: none

	// Before the lease ends, in this order: the work's context ends, the grace passes, every
	// process that is left is killed, which may take the time kill.
	lease, grace, kill time.Duration

	helper *supervise.Helper

	wait, hold time.Duration // of --once; a negative wait has no end
	decided    atomic.Int32  // whether the command is run at all
	code       atomic.Int32  // of --once, and one more than it: of the command or the signal that was its end
	stopSignal syscall.Signal

	force <-chan struct{}    // closed by the second signal
	stop  context.CancelFunc // starts a graceful shutdown
	log   *slog.Logger
}

// The values of job.decided.
const (
	undecided = iota
	runs
	givenUp // the wait is over
)

// work runs the command for one term of an election.
func (j *job) work(ctx context.Context, term *elector.Term) error {
	return j.perform(ctx, term, j.log, j.election)
}

// workOn runs the command for one term of a shard. Terms of other shards run concurrently.
func (j *job) workOn(ctx context.Context, term *shard.Term) error {
	go func() { // after a second signal, do not wait for other members to take over the shard
		select {
		case <-j.force:
			term.Resign()
		case <-ctx.Done():
		}
	}()
	number := strconv.Itoa(term.Shard)
	return j.perform(ctx, term.Term, j.log.With("shard", term.Shard), shard.ElectionOf(j.group.name, term.Shard),
		"MANDATE_GROUP="+j.group.name, "MANDATE_SHARD="+number, "MANDATE_SHARDS="+strconv.Itoa(term.Shards))
}

// perform runs the command for one term. It returns when no process that the command has started is
// left, so that the lock is never released while one of them runs.
func (j *job) perform(ctx context.Context, term *elector.Term, log *slog.Logger, election string, mark ...string) error {
	until, ok := j.until(term)
	if !ok { // the lease has ended already
		return nil
	}
	if !j.decided.CompareAndSwap(undecided, runs) && j.decided.Load() != runs {
		return nil
	}
	env := append(slices.Clone(mark), "MANDATE_ELECTION="+election, "MANDATE_ID="+j.id(), "MANDATE_TOKEN="+strconv.FormatUint(term.Token(), 10))
	if j.http != "" {
		env = append(env, "MANDATE_HTTP="+j.http)
	}
	p, err := j.helper.Start(env, until)
	if err != nil {
		return j.notStarted(ctx, err)
	}
	log = log.With("token", term.Token())
	began := time.Now()

	exited := j.attend(ctx, term, p, log)
	j.end(p, log)
	if p.Failed != nil {
		return j.notStarted(ctx, p.Failed)
	}
	why := "command: " + statusOf(p.Status)
	switch {
	case p.Late:
		log.Warn("helper killed the command; mandate was suspended or too slow for its lease")
		if term.Valid() { // it was renewed too late for the command
			late := errors.New("the helper killed the command: this process was suspended or too slow")
			return &elector.RestartError{Err: &elector.Ended{Reason: elector.ReasonExpired, Err: late}}
		}
	case p.Orphan:
		why = "mandate's helper process was killed, and the command with it"
		log.Warn("helper process was killed, and the command with it")
	}
	if why, ok := errors.AsType[*elector.Ended](context.Cause(ctx)); ok && why.Reason == elector.ReasonShutdown || exited {
		j.code.Store(1 + int32(exitCode(p.Status)))
	}
	if !exited {
		log.Info("command stopped", "status", statusOf(p.Status), "ran_for", time.Since(began).Round(time.Millisecond))
		return nil
	}
	code := exitCode(p.Status)
	level := slog.LevelInfo
	if code != 0 {
		level = slog.LevelWarn // a command that fails repeatedly must not look like one that has finished
	}
	log.Log(ctx, level, "command exited", "status", statusOf(p.Status), "code", code, "ran_for", time.Since(began).Round(time.Millisecond))
	return j.exited(ctx, log, began, code, why)
}

// exited returns the error of a term whose command has exited, when its lock may be released.
func (j *job) exited(ctx context.Context, log *slog.Logger, began time.Time, code int, why string) error {
	switch {
	case j.once && code == 0:
		j.keep(ctx, log, began)
		context.AfterFunc(ctx, j.stop) // the term ends because the work is done; only then may the program exit
		return nil
	case j.once:
		return &exitError{code: code, err: fmt.Errorf("the command ended with code %d", code), quiet: true}
	case code != 0: // so that the history does not report the term as finished
		return j.again(errors.New(why))
	default:
		return nil
	}
}

// interrupt starts a graceful shutdown.
func (j *job) interrupt(s os.Signal) {
	j.code.CompareAndSwap(0, 1+128+int32(s.(syscall.Signal)))
	j.stop()
}

// result returns the error of a run that has ended with err: with --once a signal is no success, unless the command was.
func (j *job) result(err error) error {
	if code := int(j.code.Load()) - 1; err == nil && j.once && code > 0 {
		return &exitError{code: code, err: errors.New("stopped by a signal"), quiet: true}
	}
	return err
}

// again returns the error of a term after which this candidate pauses, and campaigns again.
func (j *job) again(err error) error {
	if j.group.name != "" { // the work may succeed on another member
		return err
	}
	return &elector.RestartError{Err: err}
}

// notStarted returns the error of a term whose command was not executed.
func (j *job) notStarted(ctx context.Context, err error) error {
	passes := slices.ContainsFunc(passing, func(why error) bool { return errors.Is(err, why) })
	switch {
	case ctx.Err() != nil: // mandate was suspended meanwhile, or the helper was killed
		return nil //nolint:nilerr // the end of the term has a reason already
	case passes && !j.once:
		return j.again(fmt.Errorf("can't start the command: %w", err))
	default:
		return notStarted(j.argv[0], err)
	}
}

// passing are reasons why a program can't be started at the moment, such as a limit of processes, memory or files.
var passing = []error{supervise.ErrStart, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY}

// keep holds the lock until the time of --hold is over: a host whose clock is behind must not run the
// command again.
func (j *job) keep(ctx context.Context, log *slog.Logger, began time.Time) {
	left := j.hold - time.Since(began)
	if left <= 0 {
		return
	}
	log.Info("holding the lock", "for", left.Round(time.Millisecond))
	sleep(ctx, left)
}

// passSignals passes the signals by which programs are told to reload on to the commands, until end is
// called. A SIGHUP because the terminal is gone ends the run instead.
func (j *job) passSignals() (end func()) {
	sigs := make(chan os.Signal, 8)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		if s != j.stopSignal && !signal.Ignored(s) {
			signal.Notify(sigs, s)
		}
	}
	had := hasTerminal()
	go func() {
		for s := range sigs {
			if s == syscall.SIGHUP && had && !hasTerminal() {
				j.log.Info("shutting down", "signal", s.String())
				j.interrupt(s)
				continue
			}
			j.log.Info("passing a signal on to the command", "signal", s.String())
			j.helper.Signal(s.(syscall.Signal))
		}
	}()
	return func() {
		signal.Stop(sigs)
		close(sigs)
	}
}

func hasTerminal() bool {
	f, err := os.Open("/dev/tty")
	if err == nil {
		_ = f.Close()
	}
	return err == nil
}

// signalNamed returns the signal of that name or number.
func signalNamed(t *terminal, name string) syscall.Signal {
	sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n <= 64 {
		sig = syscall.Signal(n)
	}
	if sig == 0 || sig == syscall.SIGKILL || sig == syscall.SIGSTOP || sig == syscall.SIGCONT {
		t.problem("--stop-signal is %q: give the name of a signal that a program can handle, such as QUIT or INT (SIGKILL at once: --grace 0)", name)
	}
	return sig
}

// attend waits for the end of the command or of the term, and extends the helper's deadline
// meanwhile. exited reports whether the command exited on its own within a valid term.
func (j *job) attend(ctx context.Context, term *elector.Term, p *supervise.Process, log *slog.Logger) (exited bool) {
	tick := time.NewTicker(j.extendEvery())
	defer tick.Stop()
	started, stopped, stuck := p.Started, p.Stopped, time.After(j.lease)
	for {
		select {
		case <-stuck:
			if started != nil && p.GiveUp() {
				log.Warn("helper has not started the command; killing it and all commands")
			}
		case <-started:
			log.Info("command started", "pid", p.PID)
			started = nil
		case sig := <-stopped:
			noteStopped(log, sig)
			stopped = nil // report this only once
		case <-p.Exited:
			return term.Valid() && !p.Late
		case <-ctx.Done():
			return false
		case <-tick.C:
			if until, ok := j.until(term); ok {
				p.Extend(until)
			}
		}
	}
}

// until returns the helper's deadline, at which the helper kills the command unless it is extended.
// It is a little later than this process would kill it, and before the lease ends. ok is false when
// the term has ended: the helper then keeps its last deadline.
func (j *job) until(term *elector.Term) (until supervise.Instant, ok bool) {
	// Read the clock first: if this process is suspended between the two reads, the deadline must
	// not count from the time when it resumes.
	now := supervise.Now()
	left := term.Left()
	return now.Add(left + j.endTime()), left > 0
}

// extendEvery is how often the helper's deadline is extended: often enough for the shortest time
// that until returns.
func (j *job) extendEvery() time.Duration { return min(j.lease/16, j.endTime()/3) }

// endTime is how long the helper waits for this process to end the process tree.
func (j *job) endTime() time.Duration { return j.grace + j.kill/4 }

// end stops what is left of the command and of everything that it has started: SIGTERM, the grace,
// SIGKILL. It returns when nothing is left. The term ends grace+kill before its lease does, so the
// processes end within the lease. The grace is shorter when this process was suspended (SIGSTOP)
// for a part of that time; there is none when the helper was killed.
func (j *job) end(p *supervise.Process, log *slog.Logger) {
	// A command that has exited has mostly left no processes.
	if p.HasExited() && p.AwaitGone(time.After(5*time.Millisecond), j.force) {
		return
	}
	polite := max(0, min(j.grace, supervise.Until(p.Until)-j.kill/4))
	if p.HasExited() && p.Orphan { // nothing is left that could end politely
		polite = 0
	}
	began := !p.HasExited()
	killed := supervise.Now().Add(polite)
	p.Stop(killed)
	if polite > 0 && began {
		log.Info("stopping the command", "grace", polite.Round(time.Millisecond))
	}
	gone := p.AwaitGone(time.After(polite), j.force)
	if polite > 0 && (!gone || supervise.Until(killed) <= 0) {
		log.Warn("command did not stop in time; killing it and its descendants")
	}
	if gone {
		return
	}
	p.Stop(supervise.Now())
	if p.AwaitGone(time.After(j.kill), nil) {
		return
	}
	if left := p.Left(); left != "" {
		log.Warn("processes of the command still exist after SIGKILL; waiting for them", "processes", left)
	}
	if p.AwaitGone(time.After(time.Second), nil) {
		return
	}
	if p.GiveUp() {
		log.Warn("helper does not respond; killing it and all commands")
	}
	if !p.AwaitGone(time.After(j.lease), nil) {
		log.Error("processes of the command cannot be killed and may overlap with the next leader", "processes", p.Left())
		<-p.Exited
	}
}
