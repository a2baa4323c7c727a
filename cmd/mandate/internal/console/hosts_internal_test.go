package console

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/mandate-dev/mandate/elector"
)

func at(host string, pid int, id, incarnation string, role elector.Role) elector.CandidateStatus {
	return elector.CandidateStatus{Host: host, PID: pid, ID: id, Incarnation: incarnation, Role: role, Healthy: true, Advertise: id + ":80"}
}

func TestHostsLeadAndFollow(t *testing.T) {
	h := newHostCache()
	h.called("e", []elector.CandidateStatus{at("one", 7, "a", "A", elector.RoleLeading), at("two", 8, "b", "B", elector.RoleFollowing), at("one", 9, "c", "C", elector.RoleResting)})
	h.called("f", []elector.CandidateStatus{at("one", 7, "a", "A2", elector.RoleFollowing), at("two", 8, "b", "B2", elector.RoleLeading)})
	h.called("g", nil)
	// The roll is older than the status: b leads e by now, and who leads g did not answer.
	h.led("e", &elector.Leader{Candidate: "b", Incarnation: "B"})
	h.led("f", &elector.Leader{Candidate: "b", Incarnation: "B2"})
	h.led("g", &elector.Leader{Candidate: "d", Incarnation: "D", Advertise: "d:80"})
	if _, changed := h.list(); changed {
		t.Error("arranged without a viewer")
	}
	closed := h.open()
	list, changed := h.list()
	none := []string{}
	want := []host{
		{"", []line{{ID: "d", IDs: 1, Address: "d:80", Leads: []string{"g"}, Follows: none, Unable: none}}},
		{"one", []line{
			{PID: 7, ID: "a", IDs: 1, Address: "a:80", Leads: none, Follows: []string{"e", "f"}, Unable: none},
			{PID: 9, ID: "c", IDs: 1, Address: "c:80", Leads: none, Follows: []string{"e"}, Unable: []string{"e"}},
		}},
		{"two", []line{{PID: 8, ID: "b", IDs: 1, Address: "b:80", Leads: []string{"e", "f"}, Follows: none, Unable: none}}},
	}
	if !changed || !reflect.DeepEqual(list.Hosts, want) {
		t.Errorf("%+v", list.Hosts)
	}
	if _, changed := h.list(); changed {
		t.Error("arranged again, and nothing has changed")
	}
	h.drop("g")
	h.led("f", nil)
	if list, _ := h.list(); len(list.Hosts) != 2 || len(list.Hosts[1].Lines[0].Leads) != 1 {
		t.Errorf("after an election was forgotten, and another is vacant: %+v", list.Hosts)
	}
	closed()
	h.drop("f")
	if _, changed := h.list(); changed {
		t.Error("arranged after the last viewer left")
	}
}

// Ids are random by default: a process with many elections would fill the page.
func TestManyCandidatesOfAProcessAreOneLine(t *testing.T) {
	h := newHostCache()
	defer h.open()()
	for i := range 600 {
		id := fmt.Sprint("x", i)
		h.called(id, []elector.CandidateStatus{at("one", 7, id, id, elector.RoleFollowing), at(fmt.Sprint("host", i), 1, "same", id+"b", elector.RoleFollowing)})
		h.led(id, &elector.Leader{Candidate: id, Incarnation: id})
	}
	list, _ := h.list()
	if len(list.Hosts) != maxHosts || list.Hidden != 601-maxHosts {
		t.Errorf("%d hosts and %d hidden of 601", len(list.Hosts), list.Hidden)
	}
	h = newHostCache()
	defer h.open()()
	for i := range maxLines + 1 {
		id := fmt.Sprint("x", i)
		h.called(id, []elector.CandidateStatus{at("one", 7, id, id, elector.RoleFollowing)})
		h.led(id, &elector.Leader{Candidate: id, Incarnation: id})
	}
	list, _ = h.list()
	if len(list.Hosts) != 1 || len(list.Hosts[0].Lines) != 1 || list.Hosts[0].Lines[0].IDs != maxLines+1 || len(list.Hosts[0].Lines[0].Leads) != maxLines+1 || list.Hosts[0].Lines[0].ID != "" {
		t.Errorf("%+v", list.Hosts)
	}
}
