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
	"time"
)

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
