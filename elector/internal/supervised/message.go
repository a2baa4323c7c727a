// Package supervised is a process's side of its supervisor: a pipe, inherited from it, on which
// the process reports its terms while they last. Once the process and everything that it
// has started is gone, the supervisor releases what is left of them: no other process can know so
// soon that it may. The messages only name what there would be to release; whether it may be
// is decided by the end of the processes alone, so a lost message costs time and no safety.
//
// Nothing here starts a goroutine or blocks, and without a supervisor each call is a nil check.
package supervised

import (
	"encoding/json"
	"time"
)

// Variable of the environment names the pipe: <fd>:<inode>. Without the inode a process would
// take another file of that number for it, in a program that was started with the variable but
// without the file.
const Variable = "MANDATE_SUPERVISOR_FD"

// Message is one line on the pipe.
type Message struct {
	Elected  *Term   `json:"elected,omitempty"`
	Released *Term   `json:"released,omitempty"`
	Joined   *Member `json:"joined,omitempty"`
	Left     *Member `json:"left,omitempty"`
}

// Term is what a release needs to name exactly this one. No address of a node or password
// is part of it.
type Term struct {
	Prefix      string        `json:"prefix"`
	Election    string        `json:"election"`
	Candidate   string        `json:"candidate"`
	Incarnation string        `json:"incarnation"`
	Advertise   string        `json:"advertise,omitempty"`
	Attempt     uint64        `json:"attempt"`
	Token       uint64        `json:"token"`
	Nodes       int           `json:"nodes"` // how many vote
	Lease       time.Duration `json:"lease"`
	CallTimeout time.Duration `json:"call_timeout"`
}

// Member of a group of shards.
type Member struct {
	Prefix      string `json:"prefix"`
	Group       string `json:"group"`
	Incarnation string `json:"incarnation"`
}

// MaxLine is the longest line. A pipe takes no more in one piece, and two writers would
// mix theirs.
const MaxLine = 4096

// line is nil for a message that is too long.
func (m Message) line() []byte {
	b, err := json.Marshal(m)
	if err != nil || len(b)+1 > MaxLine {
		return nil
	}
	return append(b, '\n')
}
