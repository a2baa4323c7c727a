package fence

import (
	"errors"
	"fmt"
)

// ErrStale says that the token is older than the newest one that the resource
// has seen: another leader was elected since. Nothing was written. The error at
// hand is a [*StaleError].
var ErrStale = errors.New("fence: stale token")

// StaleError is an [ErrStale] with its particulars.
type StaleError struct {
	Resource string // the key of the mark, or the resource's name in the table
	Token    uint64 // what the write brought
	Newest   uint64 // what the resource has seen
}

// Error says what was refused, and what to do.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %s refuses token %d after %d: another leader was elected, stop writing",
		ErrStale, e.Resource, e.Token, e.Newest)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// maxToken is the largest number that Redis' scripts keep exactly; no election
// hands out a larger one.
const maxToken = 1<<53 - 1

func checkToken(token uint64) error {
	switch {
	case token == 0:
		return errors.New("fence: token 0: this is no term's token; give the Token of the term that you serve")
	case token > maxToken:
		return fmt.Errorf("fence: token %d is larger than any that an election hands out (2^53-1)", token)
	}
	return nil
}
