package doctor_test

import (
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// The history of the cordons is that of no election: that it can't be written, or read, is found in advance.
func TestRealHistoryOfCordons(t *testing.T) {
	s := servertest.Redis(t)
	const key = "mandate:{}:history"
	found := func(user string) (all []doctor.Finding) {
		t.Helper()
		q, err := elector.Open("redis://" + user + s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		findings, err := doctor.Examine(t.Context(), q, doctor.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Check == "cordons" {
				all = append(all, f)
			}
		}
		return all
	}
	is := func(user string, level doctor.Level, text, advice string) {
		t.Helper()
		if all := found(user); len(all) != 1 || all[0].Level != level || !strings.Contains(all[0].Found, text) || !strings.Contains(all[0].Advice, advice) || all[0].Node == "" {
			t.Errorf("%+v, want %s, %q, %q", all, level, text, advice)
		}
	}
	s.Do(t, "ACL", "SETUSER", "all", "on", ">x", "~mandate:*", "&mandate:*", "+@all")
	s.Do(t, "ACL", "SETUSER", "operator", "on", ">x", "%R~mandate:*", "~mandate:cordons", "&mandate:*", "+@all")
	s.Do(t, "ACL", "SETUSER", "candidate", "on", ">x", "~mandate:{*", "&mandate:*", "+@all")
	s.Do(t, "ACL", "SETUSER", "reader", "on", ">x", "%R~mandate:*", "&mandate:*", "+@all", "-xrevrange")
	for _, user := range []string{"all:x@", "candidate:x@"} {
		if all := found(user); len(all) > 0 {
			t.Errorf("%s: %+v", user, all)
		}
	}
	is("operator:x@", doctor.LevelWarn, "not recorded in "+key+": needs +xadd ~"+key, "ACL SETUSER operator (+xadd ~"+key+")")
	is("reader:x@", doctor.LevelUnknown, key+" can't be read", "grant +xrevrange ~"+key)
	if n, err := s.Client(t).DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("it left %d keys, %v", n, err)
	}
	s.Do(t, "SET", key, "hello")
	is("all:x@", doctor.LevelWarn, key+" can't be read, and no cordon is recorded: WRONGTYPE", "redis-cli TYPE '"+key+"'")
}
