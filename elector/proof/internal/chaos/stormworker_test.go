//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// What the processes of a storm are told beside what those of worker_test.go are.
const (
	dirEnv      = "MANDATE_CHAOS_DIR"   // of the lane
	leaseEnv    = "MANDATE_CHAOS_LEASE" // of a worker
	childEnv    = "MANDATE_CHAOS_CHILD" // "1": a term has a second process, in a session of its own
	electionEnv = "MANDATE_ELECTION"
)

// stormBeats is how often a process notes that it works.
const stormBeats = 200 * time.Microsecond

// beginIn notes that this process begins to work under a token.
func beginIn(kind Kind, token uint64, part string, command bool) (*Span, error) {
	dir := os.Getenv(dirEnv)
	s, err := OpenSpan(dir, token, part)
	if err != nil {
		return nil, err
	}
	j, err := OpenJournal(filepath.Join(dir, "journal"))
	if err != nil {
		return nil, err
	}
	defer j.Close()
	j.Write(Record{Kind: kind, Who: os.Getenv(idEnv), PID: os.Getpid(), Token: token, Value: part, Command: command})
	return s, nil
}

// withDirector ends this process with the test.
func withDirector() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}

// startChild starts the second process of a term.
func startChild(token uint64) (*exec.Cmd, error) {
	if os.Getenv(childEnv) != "1" {
		return nil, nil
	}
	cmd := exec.Command(os.Args[0])
	cmd.Stdin = os.Stdin
	cmd.Env = append(os.Environ(), roleEnv+"=storm-child", tokenEnv+"="+strconv.FormatUint(token, 10))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, cmd.Start()
}

// stormWorkerMain is a program below mandate supervise, which embeds an elector.
func stormWorkerMain() int {
	withDirector()
	return takePart(func(ctx context.Context, q *elector.Quorum) error {
		lease, err := time.ParseDuration(os.Getenv(leaseEnv))
		if err != nil {
			return err
		}
		e, err := elector.New(q, elector.Config{
			Election: os.Getenv(electionEnv), ID: os.Getenv(idEnv), Lease: lease,
			Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if err != nil {
			return err
		}
		return e.Run(ctx, stormTerm)
	})
}

func stormTerm(ctx context.Context, term *elector.Term) error {
	s, err := beginIn(Begin, term.Token(), "main", false)
	if err != nil {
		return err
	}
	child, err := startChild(term.Token())
	if err != nil {
		return err
	}
	for ; ctx.Err() == nil && err == nil; time.Sleep(stormBeats) {
		if term.Valid() {
			err = s.Worked()
		}
	}
	if child != nil {
		_ = child.Process.Kill()
		_ = child.Wait()
	}
	return err
}

// stormJobMain is the command of mandate run, stormChildMain the second process of a term. They work
// until they are killed.
func stormJobMain() int   { return stormWork(Begin, "main") }
func stormChildMain() int { return stormWork(Beside, "child") }

func stormWork(kind Kind, part string) int {
	withDirector()
	token, err := strconv.ParseUint(os.Getenv(tokenEnv), 10, 64)
	if err != nil {
		return 1
	}
	s, err := beginIn(kind, token, part, true)
	if err == nil && kind == Begin {
		_, err = startChild(token)
	}
	for ; err == nil; time.Sleep(stormBeats) {
		err = s.Worked()
	}
	if !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}
