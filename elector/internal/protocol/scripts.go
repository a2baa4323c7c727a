package protocol

import (
	"embed"
	"fmt"
	"reflect"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts
var scripts embed.FS

// Lua returns the source of a script; a name that is none panics, and so every test.
func Lua(of embed.FS, name string) string {
	text, err := of.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic("protocol: " + err.Error())
	}
	return string(text)
}

var (
	// ClaimScript takes the lock if it can be taken, and grants a token.
	ClaimScript = newElectionScript(Lua(scripts, "claim"), true)
	// RenewScript prolongs the lock of a term.
	RenewScript = newElectionScript(Lua(scripts, "renew"), true)
	// RaiseScript raises the tokens of a claim to the highest one.
	RaiseScript = newElectionScript(Lua(scripts, "raise"), true)
	// ReleaseScript deletes the lock, and publishes and records the end of the term.
	ReleaseScript = newElectionScript(Lua(scripts, "record")+Lua(scripts, "release"), true)
	// AnnounceScript publishes and records an event, or keeps the name of an election.
	AnnounceScript = newElectionScript(Lua(scripts, "record")+Lua(scripts, "announce"), false)
	// RightsScript finds the rights that the user lacks, for doctor. It is not batched.
	RightsScript = redis.NewScript(Lua(scripts, "rights"))
)

// Request is what a script is to do for one election. The first lines of a script list the keys and the
// arguments that it takes: fields of a Request, by name (see newElectionScript).
type Request struct {
	*Keys

	Value       string // the lock value
	Incarnation string // of the candidate, and the number of its attempt
	Seq         uint64
	Lease       int64  // in ms
	Hint        uint64 // of a claim: the lowest token that is wanted, above all that were seen
	Clock       uint64 // of a claim: the candidate's, in ms; the token is no lower, up to an hour ahead of the node's clock
	Marker      string // of a claim: the note of the abstention that the node is to end; empty: none
	Token       uint64 // of the term; of a release 0: of a failed attempt, whose release publishes nothing
	Shown       uint64 // of a renewal: the highest counter that the node has shown to this term
	Closed      uint64 // of a release: the counter with which no late renewal plants the lock again
	Successor   string // the incarnation that goes first after this term; empty: none
	Keep        int64  // for how long leadership is reserved for it, in ms
	OnlyHeld    bool   // of a release: changes nothing on a node that does not hold the lock
	Identity    string // for a node that has none
	Echo        string // of a claim: the channel to which the node publishes if it is lost; empty: to none
	Head        string // of an announcement: what precedes the event in the message
	Event       string // of an announcement and a release; of an announcement empty: only keep the history
	Missed      string // of an announcement: an earlier event that the node may have missed; empty: none
	Name        string // of an announcement: the name of the election, which the key History is to keep; empty: it is a history
}

// ElectionScript is a script of which one call can serve several elections: the keys and the
// arguments of each election follow those of the one before.
type ElectionScript struct {
	*redis.Script

	Source     string
	Keys, Args []Field // of each election
}

// Field is a field of a Request.
type Field struct {
	Name  string // in the script
	index []int
}

// newElectionScript turns lua, which serves one election, into a script for any number of them. It gives
// names to what lua lists: KEYS lock becomes lock_key, and with reads lock, its value; ARGV
// only_held becomes only_held. A name that is no field of Request panics, and so every test.
func newElectionScript(lua string, reads bool) ElectionScript {
	var names, from []string // local variables, and what they are set to
	fields := func(list, before, suffix string) (all []Field) {
		_, rest, _ := strings.Cut(lua, "-- "+list+" ")
		line, _, _ := strings.Cut(rest, "\n")
		for i, name := range strings.Fields(line) {
			wanted := strings.ReplaceAll(name, "_", "")
			f, ok := reflect.TypeFor[Request]().FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, wanted) })
			if !ok {
				panic("protocol: no field of a request is called " + name)
			}
			all = append(all, Field{name, f.Index})
			names, from = append(names, name+suffix), append(from, fmt.Sprintf("%s[%s + %d]", list, before, i+1))
		}
		return all
	}
	s, head := ElectionScript{}, ""
	s.Keys, s.Args = fields("KEYS", "k", "_key"), fields("ARGV", "a", "")
	if reads {
		head = Lua(scripts, "head")
		for _, k := range s.Keys {
			names, from = append(names, k.Name), append(from, "get("+k.Name+"_key)")
		}
	}
	s.Source = fmt.Sprintf("%slocal KEYS_EACH, ARGS_EACH = %d, %d\n%s%slocal function one(k, a)\n", scriptFacts, len(s.Keys), len(s.Args), answerLua, head)
	for i, name := range names {
		s.Source += "local " + name + " = " + from[i] + "\n"
	}
	s.Source += lua + "end\n" + Lua(scripts, "many")
	s.Script = redis.NewScript(s.Source)
	return s
}

// Command returns the command that runs the script for these requests: by its hash (evalsha) or by its source
// (eval). Its arguments point into the requests, which must not change until it has been answered; only the first
// key is a string, by which a Cluster's client finds the server.
func (s ElectionScript) Command(name, script string, all ...*Request) []any {
	args := make([]any, 0, 3+len(all)*(len(s.Keys)+len(s.Args)))
	args = append(args, name, script, len(all)*len(s.Keys))
	for _, fields := range [][]Field{s.Keys, s.Args} {
		for _, r := range all {
			v := reflect.ValueOf(r).Elem()
			for _, f := range fields {
				args = append(args, v.FieldByIndex(f.index).Addr().Interface())
			}
		}
	}
	args[3] = *args[3].(*string)
	return args
}
