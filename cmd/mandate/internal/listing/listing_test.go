package listing_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/listing"
)

// Groups that nobody uses must not push those out that somebody does, whatever they are called.
func TestFoldKeepsWhatIsInUse(t *testing.T) {
	names := []string{"orders", "zebra/3", "zebra/assigner"} // in use
	for i := range 10 {
		names = append(names, fmt.Sprintf("a%d/0", i), fmt.Sprintf("a%d/assigner", i))
	}
	names = append(names, "zebra/0")
	others, groups, left := listing.Fold(names, 3)
	if !slices.Equal(others, []string{"orders"}) || len(groups) != 3 || left != 8 {
		t.Fatalf("%v, %v, %d left", others, groups, left)
	}
	if g := groups[0]; g.Name != "zebra" || !slices.Equal(g.Shards, []int{0, 3}) {
		t.Errorf("first %v", g)
	}
	if groups[1].Name != "a0" || groups[2].Name != "a1" {
		t.Errorf("then %v", groups[1:])
	}
}
