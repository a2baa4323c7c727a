package fence

import (
	"cmp"
	"context"
	_ "embed" // the guard
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Redis fences writes to data in one Redis deployment: a single server, Sentinel or
// Cluster. Safe for concurrent use.
//
// go-redis sends a command again when its answer was lost (Options.MaxRetries, 3
// by default), so a write that must not happen twice needs a client with
// MaxRetries -1, or a script that recognises its own repetition.
type Redis struct {
	client redis.UniversalClient
	mark   string
	access string // "raise": the fence has its own mark; "read": the mark is the election's counter
}

// NewRedis returns a fence with a mark of its own under the given key. The first write creates
// the mark. On Cluster the mark and all the data must share one hash tag. The mark
// must live as long as the data: no expiry, no eviction. NewRedis does no I/O.
func NewRedis(client redis.UniversalClient, mark string) (*Redis, error) {
	if err := checkClient(client); err != nil {
		return nil, err
	}
	switch {
	case mark == "":
		return nil, errors.New("fence: the mark has no key: name one beside the data, such as {orders}:mark")
	case strings.HasSuffix(mark, "}:fence"):
		return nil, fmt.Errorf("fence: %s looks like an election's own counter, which no other program may write: "+
			"use OnElection, or another key", mark)
	}
	return &Redis{client: client, mark: mark, access: "raise"}, nil
}

// OnElection returns a fence that uses the counter of an election as its mark. This deployment
// must hold the election alone: a quorum of one, never of 3 or 5 (see the package comment). An
// empty prefix means "mandate". The fence only reads the counter. When the counter is missing
// (the election's name is wrong, or Redis lost its data and the leader has not renewed yet), every
// write is refused, with an error other than ErrStale. On Cluster the data's keys need the
// election's hash tag: {election}. OnElection does no I/O.
func OnElection(client redis.UniversalClient, prefix, election string) (*Redis, error) {
	prefix = cmp.Or(prefix, "mandate")
	if err := checkClient(client); err != nil {
		return nil, err
	}
	if election == "" || strings.ContainsAny(prefix+election, "{}") {
		return nil, fmt.Errorf("fence: prefix %q, election %q: an election has a name, and no braces in it", prefix, election)
	}
	return &Redis{client: client, mark: prefix + ":{" + election + "}:fence", access: "read"}, nil
}

// Mark returns the key of the mark.
func (r *Redis) Mark() string { return r.mark }

//go:embed guard.lua
var guardLua string

// Script is a script that can run under the guard.
type Script struct{ guarded *redis.Script }

// NewScript wraps a script as EVAL takes it: the script finds its keys in KEYS and its
// arguments in ARGV, and sees nothing of the guard. (Functions, and scripts that begin
// with a shebang, can't be wrapped.)
func NewScript(source string) *Script {
	return &Script{redis.NewScript(guardLua + source)}
}

// Run runs the script unless the token is older than the mark, and raises the mark to the
// token, in one atomic step: one EVALSHA, followed by an EVAL when the server does not have the
// script yet. The error of the result is a [*StaleError] when the token was refused; nothing was
// written then. When a script fails in the middle, Redis does not undo what it has written.
func (r *Redis) Run(ctx context.Context, token uint64, script *Script, keys []string, args ...any) *redis.Cmd {
	if err := errors.Join(checkToken(token), checkSlots(r.client, r.mark, keys)); err != nil {
		failed := redis.NewCmd(ctx)
		failed.SetErr(err)
		return failed
	}
	keys = append(slices.Clone(keys), r.mark)
	args = append(slices.Clone(args), token, r.access)
	cmd := script.guarded.Run(ctx, r.client, keys, args...)
	cmd.SetErr(r.explain(cmd.Err(), token))
	return cmd
}

// Raise writes only the mark: once it has returned, all older tokens are refused. With
// OnElection it only checks whether the token is still the newest.
func (r *Redis) Raise(ctx context.Context, token uint64) error {
	return r.Run(ctx, token, nothing, nil).Err()
}

var nothing = NewScript("return 1")

// explain turns the error replies of the guard and of Redis into errors of this package.
func (r *Redis) explain(err error, token uint64) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	mark, stale := strings.CutPrefix(text, "MANDATESTALE <")
	switch {
	case stale: // Redis may append where in the script the error arose
		return judge(r.mark, mark[:max(0, strings.LastIndex(mark, ">"))], token)
	case strings.HasPrefix(text, "MANDATETYPE"):
		return &StaleError{Resource: r.mark, Token: token, Foreign: "another type than a string"}
	case strings.HasPrefix(text, "MANDATENONE"): // a mark of the fence's own may be missing: the first write creates it
		return fmt.Errorf("fence: %s, the election's counter, is missing: is this the election's only Redis, and are its name and prefix right? "+
			"(After a loss of data the leader's next renewal writes it again.)", r.mark)
	case strings.HasPrefix(text, "CROSSSLOT"):
		return fmt.Errorf("fence: the mark %s and the data are in different hash slots: give them one hash tag: %w", r.mark, err)
	}
	return err
}

// checkSlots returns an error if the keys and the mark are in different slots of a Cluster, which
// can't change them in one step. Other deployments have no slots. It does no I/O.
func checkSlots(client redis.UniversalClient, mark string, keys []string) error {
	if _, ok := client.(*redis.ClusterClient); !ok {
		return nil
	}
	want := slot(mark)
	for _, key := range keys {
		if got := slot(key); got != want {
			return fmt.Errorf("fence: %s (slot %d) and the mark %s (slot %d) are in different hash slots, "+
				"so no step can hold both: give them one hash tag, such as {orders}:queue and {orders}:mark", key, got, mark, want)
		}
	}
	return nil
}

// slot returns the hash slot of a key, by Redis Cluster's rule: CRC16 (XMODEM) of the text in
// the first pair of braces, or of the whole key if there is none.
func slot(key string) uint16 {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}
