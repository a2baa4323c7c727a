//go:build linux

package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// registerState is the fenced register: the largest token and the last value.
type registerState struct {
	token uint64
	value string
}

type registerInput struct {
	register string
	write    bool
	token    uint64
	value    string
}

type registerOutput struct {
	result string // of a write
	value  string // of a read
}

// fencedRegister is what a resource that refuses old tokens must look like to
// all clients together: as if the operations had come one after the other.
var fencedRegister = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		var names []string
		for _, op := range history {
			name := op.Input.(registerInput).register
			if by[name] == nil {
				names = append(names, name)
			}
			by[name] = append(by[name], op)
		}
		parts := make([][]porcupine.Operation, 0, len(names))
		for _, name := range names {
			parts = append(parts, by[name])
		}
		return parts
	},
	Init: func() []any { return []any{registerState{}} },
	Step: func(state, input, output any) []any {
		s, in, out := state.(registerState), input.(registerInput), output.(registerOutput)
		written := registerState{in.token, in.value}
		switch {
		case !in.write && out.value == s.value, in.write && out.result == Refused && in.token < s.token:
			return []any{s}
		case in.write && out.result == Applied && in.token >= s.token:
			return []any{written}
		case in.write && out.result == Lost && in.token >= s.token:
			return []any{written, s}
		case in.write && out.result == Lost:
			return []any{s}
		default:
			return nil
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// checkRegister wants the history of the register to be one that a register
// which refuses old tokens can have, and says the plain case plainly.
func checkRegister(journal []Record, r *Report) {
	history := operations(journal, r)
	highest := map[string]uint64{}
	for _, rec := range journal {
		if rec.Kind != Read || rec.Value == "" {
			continue
		}
		token, err := tokenIn(rec.Value)
		if err != nil {
			r.violated("the register %s holds %q: %v", rec.Register, rec.Value, err)
		}
		if token < highest[rec.Register] {
			r.violated("the register %s went back from token %d to %d", rec.Register, highest[rec.Register], token)
		}
		highest[rec.Register] = max(highest[rec.Register], token)
	}
	if len(history) == 0 {
		r.violated("nothing was written to the register, and nothing read")
		return
	}
	switch res := porcupine.CheckOperationsTimeout(fencedRegister.ToModel(), history, 2*time.Minute); res {
	case porcupine.Ok:
	case porcupine.Illegal:
		r.violated("the register's history is not that of a register which refuses old tokens")
	default:
		r.violated("the register's history is too long to be checked")
	}
}

// tokenIn reads the token of the writer of a value: TOKEN/PID/OP.
func tokenIn(value string) (uint64, error) {
	token, _, _ := strings.Cut(value, "/")
	return strconv.ParseUint(token, 10, 64)
}

// deliver is how long after the death of its sender a request may still arrive:
// it is in the kernel's hands, and the register's server is left in peace.
const deliver = 2 * time.Second

// operations pairs calls and replies. A write whose process died before it heard
// the outcome may have been applied until shortly after its death, which is known
// to be over when a later process of the same candidate is there.
func operations(journal []Record, r *Report) []porcupine.Operation {
	type key struct{ pid, op int }
	replies := map[key]Record{}
	for _, rec := range journal {
		if rec.Kind == Reply {
			replies[key{rec.PID, rec.Op}] = rec
		}
	}
	end := journal[len(journal)-1].At + deliver
	clients := map[string]int{}
	client := func(name string) int {
		if _, ok := clients[name]; !ok {
			clients[name] = len(clients)
		}
		return clients[name]
	}
	var history []porcupine.Operation
	for i, rec := range journal {
		switch rec.Kind {
		case Call:
			op := porcupine.Operation{
				ClientId: client(strconv.Itoa(rec.PID)), Call: int64(rec.At), Return: int64(end),
				Input:  registerInput{register: rec.Register, write: true, token: rec.Token, value: rec.Value},
				Output: registerOutput{result: Lost},
			}
			reply, ok := replies[key{rec.PID, rec.Op}]
			if ok && reply.Result != Lost {
				op.Return, op.Output = int64(reply.At), registerOutput{result: reply.Result}
			} else {
				op.Return = int64(min(end, diedBefore(journal[i:], rec, end)+deliver))
			}
			count(r, op.Output.(registerOutput).result)
			history = append(history, op)
		case Read:
			history = append(history, porcupine.Operation{
				ClientId: client("reader"), Call: int64(rec.At), Return: int64(rec.Until),
				Input: registerInput{register: rec.Register}, Output: registerOutput{value: rec.Value},
			})
		default:
		}
	}
	return history
}

// diedBefore is when the writer of a call was replaced by another process.
func diedBefore(later []Record, call Record, end time.Duration) time.Duration {
	for _, rec := range later {
		if rec.Kind == Start && rec.Who == call.Who && rec.PID != call.PID {
			return rec.At
		}
	}
	return end
}

func count(r *Report, result string) {
	switch result {
	case Applied:
		r.Applied++
	case Refused:
		r.Refused++
	default:
		r.Lost++
	}
}
