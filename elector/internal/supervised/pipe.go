package supervised

import (
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
		m := t // a copy: without a supervisor nothing is allocated
		p.send(Message{Elected: &m})
	}
}

// Released reports that the term's lock was released.
func (p *Pipe) Released(t Term) {
	if p != nil {
		m := t
		p.send(Message{Released: &m})
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
		joined := m
		p.send(Message{Joined: &joined})
	}
}

// Left reports that a member has left its group.
func (p *Pipe) Left(m Member) {
	if p != nil {
		left := m
		p.send(Message{Left: &left})
	}
}

// send makes one attempt, without blocking: a supervisor that is stopped must not delay a leader. It
// checks the pipe first, because a program that closes all inherited files may have opened another
// file with the same descriptor since. It returns false if the message may be lost to a supervisor.
func (p *Pipe) send(m Message) bool {
	line := m.Line()
	return line != nil && check(p.fd, p.inode) == nil && writeNow(p.fd, line)
}
