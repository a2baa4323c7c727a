package fence

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Errors that a caller may want to distinguish with errors.Is. The error itself is a [*StaleError].
var (
	// ErrStale means that the resource refused the token, and that nothing was
	// written. The token is older than the newest one that the resource has seen:
	// another leader was elected since.
	ErrStale = errors.New("fence: stale token")
	// ErrForeignMark is an [ErrStale] with another cause: the mark holds a value that
	// no fence has written, so it is not known whether the token is old. Such a mark
	// refuses every leader until an operator has fixed it.
	ErrForeignMark = errors.New("fence: foreign mark")
)

// StaleError is an [ErrStale] with its details.
type StaleError struct {
	Resource string // the key of the mark, or the resource's name in the table
	Token    uint64 // the token of the refused write
	Newest   uint64 // the newest token that the resource has seen; 0 when that is not known
	Foreign  string // what a foreign mark holds, in words; empty otherwise

	fix string // what to do about a foreign mark; empty: set it to a token
}

// Error says what was refused, and what to do.
func (e *StaleError) Error() string {
	if e.Foreign != "" {
		refused := ""
		if e.Token > 0 {
			refused = fmt.Sprintf(", so token %d is refused as if it were stale", e.Token)
		}
		return fmt.Sprintf("%v: the mark %s holds %s%s: find out what else writes there, then %s",
			ErrForeignMark, e.Resource, e.Foreign, refused, cmp.Or(e.fix, "set the mark to the sitting leader's token"))
	}
	return fmt.Sprintf("%v: %s refuses token %d after %d: another leader was elected, stop writing",
		ErrStale, e.Resource, e.Token, e.Newest)
}

// Is makes errors.Is(err, ErrStale) true, and errors.Is(err, ErrForeignMark) for a
// foreign mark.
func (e *StaleError) Is(target error) bool {
	return target == ErrStale || target == ErrForeignMark && e.Foreign != ""
}

// judge returns a [*StaleError] if the mark, given as text, refuses the token. A mark that is no
// number, or a number that no election hands out, is foreign.
func judge(resource, mark string, token uint64) error {
	newest, err := strconv.ParseUint(mark, 10, 64)
	switch {
	case err != nil || newest > maxToken:
		return &StaleError{Resource: resource, Token: token, Foreign: fmt.Sprintf("%q, which is no token", legible(mark))}
	case newest > token:
		return &StaleError{Resource: resource, Token: token, Newest: newest}
	}
	return nil
}

// legible shortens a foreign mark, and replaces what is not printable, so that it fits into an
// error. The guard's script does the same.
func legible(mark string) string {
	b := []byte(mark[:min(len(mark), 40)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}

// maxToken is the largest number that Redis' scripts keep exactly; no election
// hands out a larger one.
const maxToken = 1<<53 - 1

// checkClient refuses a client that cannot keep a mark.
func checkClient(client redis.UniversalClient) error {
	one, isOne := client.(*redis.Client)
	cluster, isCluster := client.(*redis.ClusterClient)
	if client == nil || isOne && one == nil || isCluster && cluster == nil {
		return errors.New("fence: the client is nil")
	}
	if _, isRing := client.(*redis.Ring); isRing {
		return errors.New("fence: a redis.Ring forgets the mark when it takes another server for its key: give a client of one server, of Sentinel or of Cluster")
	}
	return nil
}

func checkToken(token uint64) error {
	switch {
	case token == 0:
		return errors.New("fence: token 0: this is no term's token; give the Token of the term that you serve")
	case token > maxToken:
		return fmt.Errorf("fence: token %d is larger than any that an election hands out (2^53-1)", token)
	}
	return nil
}
