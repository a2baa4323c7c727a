package protocol

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestWakeMessages(t *testing.T) {
	for text, want := range map[string]WakeMessage{
		"elected 7":           {Elected: true, Token: 7},
		"released 7 ":         {Token: 7},
		"released 7 ABC":      {Token: 7, First: "ABC"},
		"released 7 !ABC":     {Token: 7, First: Reservation("ABC")},
		"released 9 !A B":     {Token: 9, First: "!A B"},
		"released 9007199254": {Token: 9007199254},
	} {
		got, ok := ParseWakeMessage(text)
		if !ok || got != want {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
		if again, ok := ParseWakeMessage(got.String()); !ok || again != want {
			t.Errorf("%q is written as %q", text, got.String())
		}
	}
	for _, text := range []string{"", "elected", "elected ", "elected -1", "elected 7 ", "released", "released x y", "released -1 a", "Released 7 ", "{"} {
		if got, ok := ParseWakeMessage(text); ok {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

// What stands in the way of a script on its way to a node is known by the script, and not
// by how many arguments it happens to have.
func TestCallsAreKnownByTheirScript(t *testing.T) {
	k := KeysOf("p", "e")
	value := LockValue{Candidate: "c", Incarnation: "i", Seq: 3, Nodes: 1, Lease: time.Second}.String()
	strs := func(args []any) (s []string) {
		for _, a := range args {
			switch a := a.(type) {
			case string:
				s = append(s, a)
			case *string:
				s = append(s, *a)
			default:
				s = append(s, "0")
			}
		}
		return s
	}
	for script, keys := range map[Script][]string{
		ScriptClaim: k.ClaimKeys(), ScriptRenew: k.RenewKeys(), ScriptRaise: k.RaiseKeys(), ScriptRelease: k.ReleaseKeys(),
		ScriptAnnounce: k.AnnounceKeys(),
	} {
		report := AnnounceArgs([]byte("{}"), &k.Events, &k, new(string))
		args := map[Script][]any{
			ScriptClaim:   ClaimArgs(value, "i", 3, time.Second, 5, "", k, "id"),
			ScriptRenew:   RenewArgs(value, "i", 3, time.Second, 5, 4, Heir{}, "id", ""),
			ScriptRaise:   RaiseArgs("i", 3, 5),
			ScriptRelease: ReleaseArgs("i", 3, time.Second, 5, k, value, Heir{}, 4, false),

			ScriptAnnounce: report[:],
		}[script]
		sent := append([]string{scripts[script].Hash(), string('0' + rune(len(keys)))}, append(keys, strs(args)...)...)
		for _, command := range []string{"EVALSHA", "evalsha", "EVAL"} {
			if strings.EqualFold(command, "EVAL") {
				sent[0] = script.Source()
			}
			c := ParseCalls(command, sent...)
			if len(c) != 1 || c[0].Script != script || c[0].Keys[0] != keys[0] || len(c[0].Args) != len(args) {
				t.Errorf("%s of %s: %+v", command, script, c)
			}
			two := slices.Concat([]string{sent[0], strconv.Itoa(2 * len(keys))}, keys, keys, strs(args), strs(args))
			if c := ParseCalls(command, two...); len(c) != 2 || len(c[1].Keys) != len(keys) || len(c[1].Args) != len(args) {
				t.Errorf("%s of %s for two elections: %+v", command, script, c)
			}
			if c := ParseCalls(command, two[:len(two)-1]...); c != nil {
				t.Errorf("%s of %s that lacks an argument: %+v", command, script, c)
			}
			// A script of somebody else with as many keys and arguments is none of ours.
			if ParseCalls(command, append([]string{"return 1"}, sent[1:]...)...) != nil {
				t.Errorf("another script was taken for %s", script)
			}
		}
		if script == ScriptClaim && sent[2+len(keys)+ClaimValue] != value {
			t.Error("the lock value is not where it is said to be")
		}
	}
	for _, sent := range [][]string{nil, {ClaimScript.Hash()}, {ClaimScript.Hash(), "x"}, {ClaimScript.Hash(), "6", "lock"}, {ClaimScript.Hash(), "-1"}} {
		if c := ParseCalls("EVALSHA", sent...); c != nil {
			t.Errorf("%v was read as %+v", sent, c)
		}
	}
	if ParseCalls("GET", ClaimScript.Hash(), "0") != nil {
		t.Error("a GET was taken for a claim")
	}
}
