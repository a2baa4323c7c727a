// Command testprogress prints what `go test` prints, and prints what is still running
// whenever there was no output for a while: "go test" itself prints nothing about a
// package before the package's end, which takes minutes for some.
//
//	go test -json ./... | testprogress
//
// It is a part of `make test` (.ci/gotest). Its exit code does not depend on the
// tests: the shell uses that of go test (pipefail).
//
// With -crashed FILE it writes to FILE, one per line, the packages that failed because the race
// detector itself crashed, if no package failed for any other reason: .ci/gotest runs those once more.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	every := flag.Duration("every", 30*time.Second, "how long a silence is, before a line says what is running")
	file := flag.String("crashed", "", "the file that gets the packages in which only the race detector crashed")
	flag.Parse()
	crashed, err := follow(os.Stdin, os.Stdout, os.Stderr, *every)
	if err == nil && *file != "" && len(crashed) > 0 {
		err = os.WriteFile(*file, []byte(strings.Join(crashed, "\n")+"\n"), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testprogress:", err)
		os.Exit(1)
	}
}

// follow writes the tests' output to out, and what is running to silence, after each silence of
// the length every. The two may differ, because a program that reads the output does not expect
// these lines. It returns the packages to run again (progress.crashedOnly).
func follow(in io.Reader, out, silence io.Writer, every time.Duration) ([]string, error) {
	lines, failed := make(chan []byte), make(chan error, 1)
	go func() {
		defer close(lines)
		failed <- read(in, lines)
	}()
	p := newProgress(time.Now())
	quiet := time.NewTimer(every)
	defer quiet.Stop()
	for {
		select {
		case line, more := <-lines:
			if !more {
				_, err := io.WriteString(out, p.end())
				return p.crashedOnly(), errors.Join(err, <-failed)
			}
			text := p.line(line, time.Now())
			if text == "" {
				continue
			}
			quiet.Reset(every)
			if _, err := io.WriteString(out, text); err != nil {
				return nil, err
			}
		case now := <-quiet.C:
			quiet.Reset(every)
			if _, err := io.WriteString(silence, p.running(now)); err != nil {
				return nil, err
			}
		}
	}
}

// read sends the lines of in, of any length, to lines.
func read(in io.Reader, lines chan<- []byte) error {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			lines <- line
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
