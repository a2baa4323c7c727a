package simtest

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// command is one whole request as it goes over the wire.
type command struct {
	raw  []byte
	args [][]byte // parts of raw
}

// nextCommand cuts the first whole command off a stream; ok is false while it
// is incomplete.
func nextCommand(b []byte) (c command, rest []byte, ok bool) {
	line := func(at int) (n, next int, ok bool) {
		end := bytes.Index(b[at:], []byte("\r\n"))
		if end < 1 {
			return 0, 0, false
		}
		n, err := strconv.Atoi(string(b[at+1 : at+end]))
		if err != nil {
			panic(fmt.Sprintf("simtest: not RESP: %.80q", b[at:]))
		}
		return n, at + end + 2, true
	}
	if len(b) == 0 {
		return c, b, false
	}
	count, at, ok := line(0)
	if !ok {
		return c, b, false
	}
	for range count {
		if at >= len(b) {
			return c, b, false
		}
		size, begin, ok := line(at)
		if !ok || begin+size+2 > len(b) {
			return c, b, false
		}
		c.args = append(c.args, b[begin:begin+size])
		at = begin + size + 2
	}
	c.raw = b[:at]
	return c, b[at:], true
}

// deed is what a request does for one election.
type deed struct {
	script testredis.Script
	lock   string   // the key
	argv   [][]byte // as they lie in the request: they can be changed in place
}

// ends reports whether it is the release of a term, and not the silent one of a failed attempt.
func (d deed) ends() bool {
	return d.script == testredis.ScriptRelease && string(d.arg("token")) != "0"
}

// arg returns an argument.
func (d deed) arg(name string) []byte { return d.argv[d.script.Arg(name)] }

// elections recognizes the scripts: what a request does, for each election.
func (c command) elections() (all []deed) {
	args := make([]string, len(c.args))
	for i, a := range c.args {
		args[i] = string(a)
	}
	calls := testredis.Requests(args[0], args[1:]...)
	for i, call := range calls {
		at := len(c.args) - (len(calls)-i)*len(call.Args)
		all = append(all, deed{call.Script, call.Keys[0], c.args[at : at+len(call.Args)]})
	}
	return all
}

// bendClock makes the clock of a claim look as if the candidate's wall clock were
// off: the Elector reads the bubble's clock for it, which nothing can bend.
func bendClock(clock []byte, off time.Duration) {
	if s := strconv.FormatInt(int64(number(clock))+off.Milliseconds(), 10); len(s) == len(clock) {
		copy(clock, s)
	}
}

// number is an argument that must be one.
func number(arg []byte) uint64 {
	n, err := strconv.ParseUint(string(arg), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("simtest: not a number: %.80q", arg))
	}
	return n
}
