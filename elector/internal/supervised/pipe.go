package supervised

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Pipe leads to the supervisor. A nil one leads nowhere.
type Pipe struct {
	fd    int
	inode uint64
}

var inherited struct {
	once sync.Once
	pipe *Pipe
	mu   sync.Mutex // of problem
	err  error
}

// Inherit takes the pipe out of the environment, the first time that it is called: a program
// that this process starts must neither find the variable nor keep the pipe open.
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

// Problem is why the pipe that the environment names can't be used, the first time that it is
// called, and nil later: it is logged once.
func Problem() error {
	inherited.mu.Lock()
	defer inherited.mu.Unlock()
	err := inherited.err
	inherited.err = nil
	return err
}

// take checks that the file is the pipe which was meant.
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

// Elected reports a term that has begun: before its work starts.
func (p *Pipe) Elected(t Term) {
	if p != nil {
		m := t // a copy: without a supervisor nothing is allocated
		p.send(Message{Elected: &m})
	}
}

// Released reports that the term's lock was given back.
func (p *Pipe) Released(t Term) {
	if p != nil {
		m := t
		p.send(Message{Released: &m})
	}
}

// Joined reports a member of a group.
func (p *Pipe) Joined(m Member) {
	if p != nil {
		joined := m
		p.send(Message{Joined: &joined})
	}
}

// Left reports that it is none any more.
func (p *Pipe) Left(m Member) {
	if p != nil {
		left := m
		p.send(Message{Left: &left})
	}
}

// send makes one attempt: a supervisor that was stopped must not hold up a leader. A program that
// closes all files which it has inherited may since have opened another one under the number.
func (p *Pipe) send(m Message) {
	if line := m.line(); line != nil && check(p.fd, p.inode) == nil {
		writeNow(p.fd, line)
	}
}
