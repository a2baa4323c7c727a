//go:build linux

package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

var promise = Promise{Lease: time.Second, Vacancy: 2 * time.Second, Nodes: 3}

// good is a short run as it should be: a leads, is killed, b takes over.
func good() []Record {
	return []Record{
		{Kind: Heal, At: 1 * ms, Target: "cand:a"},
		{Kind: Heal, At: 1 * ms, Target: "cand:b"},
		{Kind: Start, At: 1 * ms, Who: "a", PID: 1},
		{Kind: Start, At: 1 * ms, Who: "b", PID: 2},
		{Kind: Begin, At: 10 * ms, Who: "a", Token: 7},
		{Kind: Valid, At: 11 * ms, Until: 12 * ms, Who: "a", Token: 7},
		{Kind: Call, At: 15 * ms, Who: "a", PID: 1, Token: 7, Op: 1, Register: "r", Value: "7/1/1"},
		{Kind: Reply, At: 16 * ms, Who: "a", PID: 1, Op: 1, Result: Applied},
		{Kind: Valid, At: 20 * ms, Until: 21 * ms, Who: "a", Token: 7},
		{Kind: Fault, At: 22 * ms, Target: "cand:a"},
		{Kind: Begin, At: 900 * ms, Who: "b", Token: 9},
		{Kind: Valid, At: 901 * ms, Until: 902 * ms, Who: "b", Token: 9},
		{Kind: Call, At: 903 * ms, Who: "b", PID: 2, Token: 9, Op: 1, Register: "r", Value: "9/2/1"},
		{Kind: Reply, At: 904 * ms, Who: "b", PID: 2, Op: 1, Result: Applied},
		{Kind: Call, At: 905 * ms, Who: "a", PID: 1, Token: 7, Op: 2, Register: "r", Value: "7/1/2"},
		{Kind: Reply, At: 906 * ms, Who: "a", PID: 1, Op: 2, Result: Refused},
		{Kind: Read, At: 907 * ms, Until: 908 * ms, Register: "r", Value: "9/2/1"},
		{Kind: Valid, At: 950 * ms, Until: 951 * ms, Who: "b", Token: 9},
	}
}

func TestCheckAcceptsAGoodJournal(t *testing.T) {
	r := Check(good(), promise)
	if len(r.Violations) > 0 {
		t.Fatalf("violations: %q", r.Violations)
	}
	if r.Terms != 2 || r.Applied != 2 || r.Refused != 1 || r.Reads != 1 || r.Samples != 4 {
		t.Errorf("miscounted: %+v", r)
	}
}

// Each of these journals is the good one with one lie, and must be refused.
func TestCheckRefusesBadJournals(t *testing.T) {
	change := func(i int, f func(*Record)) []Record {
		j := good()
		f(&j[i])
		return j
	}
	for _, tc := range []struct {
		name, says string
		journal    []Record
	}{
		{"nothing", "is empty", nil},
		{"two valid terms", "both valid", append(good(), Record{Kind: Valid, At: 960 * ms, Until: 961 * ms, Who: "a", Token: 7})},
		{"a smaller token later", "did with 3", append(good(),
			Record{Kind: Begin, At: 960 * ms, Who: "a", Token: 3}, Record{Kind: Valid, At: 961 * ms, Until: 962 * ms, Who: "a", Token: 3})},
		{"a token twice", "given twice", append(good(), Record{Kind: Begin, At: 960 * ms, Who: "a", Token: 9})},
		{"one token, two users", "is used by", append(good(), Record{Kind: Valid, At: 960 * ms, Until: 961 * ms, Who: "a", Token: 9})},
		{"no token", "token 0", append(good(), Record{Kind: Begin, At: 960 * ms, Who: "b"})},
		{"an old token's write is applied", "old tokens", change(15, func(r *Record) { r.Result = Applied })},
		{"a new token's write is refused", "old tokens", change(13, func(r *Record) { r.Result = Refused })},
		{"a read of an old value", "old tokens", change(16, func(r *Record) { r.Value = "7/1/1" })},
		{"a read of what nobody wrote", "old tokens", change(16, func(r *Record) { r.Value = "9/2/2" })},
		{"the register goes back", "went back", append(good(), Record{Kind: Read, At: 960 * ms, Until: 961 * ms, Register: "r", Value: "7/1/1"})},
		{"no candidate leads for too long", "no leader for", append(good(), Record{Kind: Act, At: 9 * time.Second, Result: "nap"})},
		{"no register", "nothing was written", good()[:6]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := Check(tc.journal, promise)
			if !strings.Contains(strings.Join(r.Violations, "\n"), tc.says) {
				t.Errorf("want %q, got %q", tc.says, r.Violations)
			}
		})
	}
}

// What is not promised is not called a violation.
func TestCheckForgives(t *testing.T) {
	stopped := good()
	for i := range stopped {
		stopped[i].Command = stopped[i].Who == "a"
	}
	stopped = append(stopped, Record{Kind: Valid, At: 960 * ms, Until: 961 * ms, Who: "a", Token: 7, Command: true})
	if r := Check(stopped, promise); len(r.Violations) > 0 || len(r.Excused) != 1 {
		t.Errorf("a command of a stopped mandate run: %q, excused %q", r.Violations, r.Excused)
	}
	longer := append(slices.Clone(stopped),
		Record{Kind: Valid, At: 990 * ms, Until: 991 * ms, Who: "b", Token: 9},
		Record{Kind: Valid, At: 995 * ms, Until: 996 * ms, Who: "a", Token: 7, Command: true})
	if r := Check(longer, promise); len(r.Violations) != 1 || len(r.Excused) > 0 {
		t.Errorf("the same for too long: %q, excused %q", r.Violations, r.Excused)
	}
	busy := slices.Insert(slices.Clone(longer), len(good()), Record{Kind: Late, At: 500 * ms, Until: 600 * ms})
	if r := Check(busy, promise); len(r.Violations) > 0 || len(r.Excused) != 1 {
		t.Errorf("the same on a machine that lets processes wait: %q, excused %q", r.Violations, r.Excused)
	}
	nobody := append(good(),
		Record{Kind: Fault, At: 960 * ms, Target: "node:0"},
		Record{Kind: Fault, At: 960 * ms, Target: "link:b:1"},
		Record{Kind: Act, At: 9 * time.Second, Result: "nap"})
	if r := Check(nobody, promise); len(r.Violations) > 0 {
		t.Errorf("a vacancy while b reaches one node of three: %q", r.Violations)
	}
	slow := append(good(),
		Record{Kind: Late, At: 960 * ms, Until: 2700 * ms},
		Record{Kind: Act, At: 9 * time.Second, Result: "nap"})
	if r := Check(slow, promise); len(r.Violations) > 0 {
		t.Errorf("a vacancy while the machine lets processes wait: %q", r.Violations)
	}
	cut := good() // a's first answer, and its process is stopped before it writes that down
	cut[5].Until = 940 * ms
	if r := Check(cut, promise); len(r.Violations) > 0 {
		t.Errorf("a process that was stopped in the middle of an answer: %q", r.Violations)
	}
	lost := good() // the reply to a's first write is lost, and the process is replaced
	lost = append(lost[:7:7], lost[8:]...)
	if r := Check(lost, promise); len(r.Violations) > 0 || r.Lost != 1 {
		t.Errorf("a lost reply: %q, lost %d", r.Violations, r.Lost)
	}
}

// A term that nothing could release is followed by another one when its lock has lapsed, and not before.
func TestCheckKept(t *testing.T) {
	for begin, want := range map[time.Duration]int{900 * ms: 1, 1005 * ms: 1, 1011 * ms: 0, 1030 * ms: 0} {
		r := checkTerms([]Record{
			{Kind: Begin, At: 10 * ms, Who: "a", Token: 7},
			{Kind: Valid, At: 20 * ms, Until: 20 * ms, Who: "a", Token: 7},
			{Kind: Kept, At: 21 * ms, Until: 1020 * ms, Who: "a", Token: 7, Result: "its supervisor is dead"},
			{Kind: Begin, At: begin, Who: "b", Token: 9},
			{Kind: Valid, At: begin, Until: begin, Who: "b", Token: 9},
		}, promise)
		if len(r.Violations) != want || r.Kept != 1 {
			t.Errorf("%v: %q, want %d; %d kept", begin, r.Violations, want, r.Kept)
		}
	}
}
