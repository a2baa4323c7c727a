package main

import (
	"encoding/json"
	"slices"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// reportMore are the JSON keys of a report other than those of the status.
type reportMore struct {
	State         string              `json:"state"`
	Candidates    *int                `json:"candidates"` // null: not known
	Able          *int                `json:"able"`
	NodesWritable *int                `json:"nodes_writable,omitempty"` // left out: not tried
	LastEnd       *elector.TermRecord `json:"last_end"`
	Problem       string              `json:"problem,omitempty"`
	Next          string              `json:"next,omitempty"`
}

// MarshalJSON returns the JSON object of the status with the keys of reportMore added.
func (r report) MarshalJSON() ([]byte, error) {
	more := reportMore{State: r.state(), LastEnd: r.last}
	if r.rollErr == nil {
		all, able := len(r.roll), r.able()
		more.Candidates, more.Able = &all, &able
	}
	if len(r.writes) > 0 && !slices.ContainsFunc(r.writes, func(f doctor.Finding) bool { return f.Found == mayNotWrite }) {
		good, _ := r.nodes()
		more.NodesWritable = &good
	}
	more.Problem, more.Next = r.problem()
	st, err := json.Marshal(r.Status)
	if err != nil {
		return nil, err
	}
	rest, err := json.Marshal(more)
	if err != nil {
		return nil, err
	}
	return append(append(st[:len(st)-1], ','), rest[1:]...), nil
}
