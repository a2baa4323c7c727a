package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/console/consoletest"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// rows are the elections, or the groups, that a viewer has a line for.
func (v *view) rows(kind string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []string
	for part := range v.parts {
		if name, is := strings.CutPrefix(part, kind+" "); is {
			all = append(all, name)
		}
	}
	return all
}

// count is how many parts it has received.
func (v *view) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.received
}

// A group is one line, whatever the number of its shards; who owns which goes to those who
// have opened it.
func TestGroupIsOneRow(t *testing.T) {
	bubble(t, console.Config{Token: token}, func(t *testing.T, s *server, _ *console.Console) {
		s.redis.Lead(s.candidate("e", "x"))
		consoletest.Member(t, s.redis, "g", "a", 12)
		consoletest.Member(t, s.redis, "g", "b", 12)
		electortest.Advance(consoletest.Lease)
		v, opened := s.view("e"), s.view("g")
		electortest.Advance(5 * time.Second)
		if got := v.rows("row"); len(got) != 1 || got[0] != "e" {
			t.Errorf("lines of elections: %q", got)
		}
		if v.get("group g", "state") != "owned" || v.get("group g", "shards") != 12.0 || v.get("group g", "able") != 2.0 || v.get("group g", "assigner") == nil {
			t.Errorf("the line: %v", v.get("group g"))
		}
		if v.get("shards g", "election") != nil {
			t.Error("who owns what goes to those who have not opened it")
		}
		members := opened.list("shards g", "members")
		if len(members) != 2 || members[0]["id"] != "a" || members[0]["owned"] != members[0]["planned"] {
			t.Fatalf("the map: %v", opened.get("shards g"))
		}
		hosts := &view{parts: map[string]map[string]any{}}
		go hosts.read(s.dial(fmt.Sprintf(getLive, "?view=hosts")))
		electortest.Advance(2 * time.Second)
		if text := fmt.Sprint(hosts.get("hosts")); !strings.Contains(text, "groups:[map[group:g shards:") {
			t.Errorf("the hosts: %s", text)
		}

		electortest.Advance(5 * time.Second)
		before := v.count() + opened.count()
		electortest.Advance(5 * time.Second)
		if n := v.count() + opened.count() - before; n > 40 { // the nodes, the lease of e, and beats
			t.Errorf("%d parts were sent in 5 s in which nothing happened", n)
		}

		s.redis.CutOff("b")
		electortest.Advance(7 * time.Second)
		if v.get("group g", "state") != "unowned" || v.get("group g", "since") == nil || v.get("group g", "members") != 1.0 {
			t.Errorf("after b's death: %v", v.get("group g"))
		}
		if vacant := opened.list("shards g", "vacant"); len(vacant) != 1 || vacant[0]["why"] != "the next owner does not own it yet: the lease of its last owner may still run" {
			t.Errorf("without an owner: %v", vacant)
		}
		electortest.Advance(10 * time.Second)
		if v.get("group g", "state") != "owned" || len(opened.list("shards g", "members")) != 1 {
			t.Errorf("a lease later: %v", v.get("group g"))
		}
		s.redis.CutOff("a")
		electortest.Advance(60 * time.Second)
		if v.get("group g", "state") != "empty" || v.get("group g", "unowned") != 12.0 {
			t.Errorf("without members: %v", v.get("group g"))
		}
	})
}

// A shard that is open has all that an election has, and no line of its own.
func TestShardOfAGroup(t *testing.T) {
	bubble(t, console.Config{Token: token}, func(t *testing.T, s *server, c *console.Console) {
		consoletest.Member(t, s.redis, "g", "a", 4)
		consoletest.Member(t, s.redis, "g", "b", 4)
		electortest.Advance(15 * time.Second)
		glance := func(name string) (code int, leader string) {
			w := request(c, http.MethodGet, "/api/shard?election="+name, "")
			var got struct{ Leader struct{ ID string } }
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			return w.Code, got.Leader.ID
		}
		if code, _ := glance("g/2"); code != http.StatusNotFound {
			t.Errorf("without viewers a look at a shard gives %d", code)
		}
		v := s.view("g", "g/2")
		electortest.Advance(3 * time.Second)
		owner, _ := v.get("status g/2", "leader", "id").(string)
		if owner != "a" && owner != "b" || len(v.list("roll g/2", "candidates")) == 0 || len(v.list("terms g/2", "terms")) == 0 {
			t.Errorf("details: %v, %v, %v", v.get("status g/2"), v.get("roll g/2"), v.get("terms g/2"))
		}
		if rows := append(v.rows("row"), v.rows("past")...); len(rows) != 0 {
			t.Errorf("lines of their own: %q", rows)
		}
		for name, want := range map[string]int{"g/2": http.StatusOK, "g/x": http.StatusNotFound, "other/2": http.StatusNotFound, "g": http.StatusNotFound} {
			if code, leader := glance(name); code != want || code == http.StatusOK && leader != owner {
				t.Errorf("a look at %s: %d, %q", name, code, leader)
			}
		}
		w := request(c, http.MethodPost, "/api/resign", `{"election":"g/2","force":true}`, bearer(token))
		if w.Code != http.StatusOK {
			t.Errorf("resign: %d %s", w.Code, w.Body)
		}
		electortest.Advance(5 * time.Second)
		if now := v.get("status g/2", "leader", "id"); now == owner || now == nil {
			t.Errorf("after it resigned, %v owns it", now)
		}
	})
}

// A console of named ones shows a group by its name.
func TestNamedGroup(t *testing.T) {
	bubble(t, console.Config{Token: token, Elections: []string{"g", "e"}}, func(t *testing.T, s *server, c *console.Console) {
		s.redis.Lead(s.candidate("e", "x"))
		consoletest.Member(t, s.redis, "g", "a", 4)
		consoletest.Member(t, s.redis, "other", "b", 4)
		electortest.Advance(15 * time.Second)
		v := s.view("e")
		electortest.Advance(5 * time.Second)
		if v.get("group g", "state") != "owned" || v.get("row e", "leader") != "x" || v.get("group other", "state") != nil || v.get("row g", "state") != nil {
			t.Errorf("lines: %v, %v", v.rows("group"), v.rows("row"))
		}
		for name, want := range map[string]int{"g/1": http.StatusOK, "other/1": http.StatusNotFound, "g/x": http.StatusNotFound} {
			if w := request(c, http.MethodPost, "/api/pause", `{"election":"`+name+`"}`, bearer(token)); w.Code != want {
				t.Errorf("pause of %s: %d %s", name, w.Code, w.Body)
			}
		}
	})
}

// What a group costs does not grow with its shards.
func TestGroupIsReadAsAWhole(t *testing.T) {
	per := func(shards int) (commands int) {
		bubble(t, console.Config{}, func(t *testing.T, s *server, _ *console.Console) {
			consoletest.Member(t, s.redis, "g", "a", shards)
			electortest.Advance(15 * time.Second)
			before := s.commands()
			electortest.Advance(20 * time.Second)
			without := s.commands() - before
			s.view("g")
			electortest.Advance(5 * time.Second)
			before = s.commands()
			electortest.Advance(20 * time.Second)
			commands = s.commands() - before - without
		})
		return commands
	}
	few, many := per(4), per(64)
	if many > few*5/4 {
		t.Errorf("20 s with an open map cost %d commands with 4 shards, and %d with 64", few, many)
	}
}

// Regression: what was not there any more stayed on the page until it was loaded again. The
// assigner's election is listed before the first shard's, as any other one.
func TestEndedElectionsLeaveThePage(t *testing.T) {
	bubble(t, console.Config{}, func(t *testing.T, s *server, _ *console.Console) {
		rdb := s.redis.Client("x")
		for _, name := range []string{"old", "g/assigner"} {
			rdb.Set(t.Context(), "mandate:{"+name+"}:fence", "7", 0)
		}
		v := s.view("old")
		electortest.Advance(5 * time.Second)
		if v.get("row old", "state") == nil || v.get("row g/assigner", "state") == nil {
			t.Fatalf("lines: %q", v.rows("row"))
		}
		rdb.Del(t.Context(), "mandate:{old}:fence")
		rdb.Set(t.Context(), "mandate:{g/0}:fence", "7", 0)
		electortest.Advance(20 * time.Second)
		if v.get("gone old", "election") == nil || v.get("gone g/assigner", "election") == nil || v.get("group g", "state") != "empty" {
			t.Errorf("gone: %q, groups: %q", v.rows("gone"), v.rows("group"))
		}
		rdb.Set(t.Context(), "mandate:{old}:fence", "7", 0)
		electortest.Advance(20 * time.Second)
		later := s.view()
		electortest.Advance(time.Second)
		if later.get("row old", "state") == nil || later.get("gone old", "election") != nil {
			t.Error("it is there again, and gone for a new viewer")
		}
	})
}
