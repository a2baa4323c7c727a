package health

import (
	"context"
	"errors"
	"testing"
)

// After a pause of the process the answer, the end of the context and the end of the
// patience are all there at once: the answer counts, each time.
func TestAnswerThatIsThereCounts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f, said := &flight{}, errors.New("disk full")
	c := &call{done: make(chan struct{}), err: said}
	close(c.done)
	for range 100 {
		if err := f.wait(ctx, c, 0); !errors.Is(err, said) {
			t.Fatalf("%v", err)
		}
	}
}
