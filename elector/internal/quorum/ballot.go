package quorum

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Ballot is the value of the lock key: who holds it, by which attempt, and
// under which settings. It is written as one readable line:
//
//	<candidate>/<incarnation>/<seq> n=<nodes> lease=<ms>[ addr=<advertised>]
type Ballot struct {
	Candidate   string        // the candidate's id
	Incarnation string        // random per Elector: tells two processes of one id apart
	Seq         uint64        // counts the attempts of an incarnation
	Nodes       int           // how many nodes vote, as the holder believes
	Lease       time.Duration // whole milliseconds
	Advertise   string        // where the leader can be reached, in its own words
}

func (b Ballot) String() string {
	s := fmt.Sprintf("%s/%s/%d n=%d lease=%d", b.Candidate, b.Incarnation, b.Seq, b.Nodes, b.Lease.Milliseconds())
	if b.Advertise != "" {
		s += " addr=" + b.Advertise
	}
	return s
}

// ParseBallot reads a lock value. A value of another origin (a hand-made SET, a
// lock of another program under our key) is an error that shows it.
func ParseBallot(s string) (Ballot, error) {
	b, err := parseBallot(s)
	if err != nil {
		return Ballot{}, fmt.Errorf("lock value %.200q is not one of ours: %w", s, err)
	}
	return b, nil
}

func parseBallot(s string) (b Ballot, err error) {
	who, rest, _ := strings.Cut(s, " ")
	i := strings.LastIndexByte(who, '/')
	j := -1
	if i > 0 {
		j = strings.LastIndexByte(who[:i], '/')
	}
	if j < 1 {
		return b, errors.New("it does not start with <candidate>/<incarnation>/<seq>")
	}
	b.Candidate, b.Incarnation = who[:j], who[j+1:i]
	if b.Seq, err = strconv.ParseUint(who[i+1:], 10, 64); err != nil {
		return b, errors.New("its seq is not a number")
	}
	if !isAlnum(b.Incarnation) {
		return b, errors.New("its incarnation is not made of letters and digits")
	}
	for field := range strings.FieldsSeq(rest) {
		key, val, _ := strings.Cut(field, "=")
		switch key {
		case "n":
			if b.Nodes, err = strconv.Atoi(val); err != nil || b.Nodes < 1 {
				return b, errors.New("its n is not a positive number")
			}
		case "lease":
			ms, err := strconv.ParseInt(val, 10, 64)
			if err != nil || ms < 1 || ms > int64(1<<53)/int64(time.Millisecond) {
				return b, errors.New("its lease is not a number of milliseconds")
			}
			b.Lease = time.Duration(ms) * time.Millisecond
		case "addr":
			b.Advertise = val
		} // others: a later version's
	}
	if b.Nodes == 0 || b.Lease == 0 {
		return b, errors.New("n or lease is missing")
	}
	return b, nil
}

func isAlnum(s string) bool {
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return s != ""
}
