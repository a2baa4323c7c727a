// Package supervised is the part of supervision in the supervised process: a pipe, inherited from the
// supervisor, on which the process reports when its terms begin and end. Once the process, and
// everything that it has started, is gone, the supervisor releases the terms that are left: no other
// process can know so soon that a release is safe. The messages only name what to release; only the
// end of the processes permits it, so a lost message costs time, but not safety.
//
// Nothing here starts a goroutine or blocks, and without a supervisor each call is a nil check.
package supervised

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Pipe is the pipe to the supervisor. The methods of a nil Pipe do nothing.
type Pipe struct {
	fd    int
	inode uint64
}

var inherited struct {
	once sync.Once
	pipe *Pipe
	mu   sync.Mutex // of err
	err  error
}

// Inherit returns the pipe that the environment names, or nil. Its first call removes the variable
// from the environment and makes the pipe close-on-exec: a program that this process starts must
// neither find the variable nor keep the pipe open.
func Inherit() *Pipe {
	inherited.once.Do(func() {
		value, set := os.LookupEnv(Variable)
		if !set {
			return
		}
		_ = os.Unsetenv(Variable)
		inherited.pipe, inherited.err = take(value)
	})
	return inherited.pipe
}

// Problem returns why the pipe that the environment names can't be used. It returns the error
// once, so that it is logged once, and nil later.
func Problem() error {
	inherited.mu.Lock()
	defer inherited.mu.Unlock()
	err := inherited.err
	inherited.err = nil
	return err
}

// take parses the variable, and checks that the file is the pipe that it names.
func take(value string) (*Pipe, error) {
	number, inode, ok := strings.Cut(value, ":")
	fd, err := strconv.Atoi(number)
	ino, ierr := strconv.ParseUint(inode, 10, 64)
	if !ok || err != nil || ierr != nil || fd < 0 {
		return nil, fmt.Errorf("%s is %q: want <fd>:<inode>, as a supervisor sets it", Variable, value)
	}
	if err := prepare(fd, ino); err != nil {
		return nil, fmt.Errorf("%s: file descriptor %d: %w", Variable, fd, err)
	}
	return &Pipe{fd, ino}, nil
}

// Elected reports a term that has begun. It is called before the work starts.
func (p *Pipe) Elected(t Term) {
	if p != nil {
		p.send(Message{Elected: new(t)}) // a copy: without a supervisor nothing is allocated
	}
}

// Released reports that the term's lock was released.
func (p *Pipe) Released(t Term) {
	if p != nil {
		p.send(Message{Released: new(t)})
	}
}

// Promised reports that the holder of a term has promised, for so long from now, that no other candidate leads.
// It returns false if the supervisor might release the term before, because it can't know: then the promise
// must not be made.
func (p *Pipe) Promised(prefix, election string, token uint64, validFor time.Duration) bool {
	return p == nil || p.send(Message{Promised: &Promise{prefix, election, token, validFor}})
}

// Joined reports a member of a group.
func (p *Pipe) Joined(m Member) {
	if p != nil {
		p.send(Message{Joined: new(m)})
	}
}

// Left reports that a member has left its group.
func (p *Pipe) Left(m Member) {
	if p != nil {
		p.send(Message{Left: new(m)})
	}
}

// send makes one attempt, without blocking: a supervisor that is stopped must not delay a leader. It
// checks the pipe first, because a program that closes all inherited files may have opened another
// file with the same descriptor since. It returns false if the message may be lost to a supervisor.
func (p *Pipe) send(m Message) bool {
	line := m.Line()
	return line != nil && check(p.fd, p.inode) == nil && writeNow(p.fd, line)
}

// Variable is the environment variable that names the pipe: <fd>:<inode>. The inode lets a program
// that was started with the variable, but without the pipe, notice that the file descriptor is that
// of another file.
const Variable = "MANDATE_SUPERVISOR_FD"

// Message is one line on the pipe.
type Message struct {
	Elected  *Term    `json:"elected,omitempty"`
	Released *Term    `json:"released,omitempty"`
	Promised *Promise `json:"promised,omitempty"`
	Joined   *Member  `json:"joined,omitempty"`
	Left     *Member  `json:"left,omitempty"`
}

// Term has what a release needs to identify exactly one term. It contains no address of a node and
// no password.
type Term struct {
	Prefix      string        `json:"prefix"`
	Election    string        `json:"election"`
	Candidate   string        `json:"candidate"`
	Incarnation string        `json:"incarnation"`
	Advertise   string        `json:"advertise,omitempty"`
	Attempt     uint64        `json:"attempt"`
	Token       uint64        `json:"token"`
	Nodes       int           `json:"nodes"` // number of nodes that vote
	Lease       time.Duration `json:"lease"`
	CallTimeout time.Duration `json:"call_timeout"`
}

// Promise is a time, from when the message was sent, for which other programs rely on a term.
type Promise struct {
	Prefix   string        `json:"prefix"`
	Election string        `json:"election"`
	Token    uint64        `json:"token"`
	For      time.Duration `json:"for"`
}

// Member identifies a member of a group of shards.
type Member struct {
	Prefix      string `json:"prefix"`
	Group       string `json:"group"`
	Incarnation string `json:"incarnation"`
}

// MaxLine is the length, in bytes, of the longest line. A pipe does not write more atomically: the
// lines of two writers would mix.
const MaxLine = 4096

// Line returns the message as a line; nil if it is too long.
func (m Message) Line() []byte {
	b, err := json.Marshal(m)
	if err != nil || len(b)+1 > MaxLine {
		return nil
	}
	return append(b, '\n')
}
