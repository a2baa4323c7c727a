package health

import (
	"bytes"
	"testing"
)

// A program that prints without end costs a few KiB, in whatever portions it prints.
func TestTailIsBounded(t *testing.T) {
	for _, portion := range []int{1, 100, tailSize - 1, tailSize, tailSize + 1, 10 * tailSize} {
		var out tail
		var all []byte
		for i := 0; len(all) < 100*tailSize; i++ {
			p := bytes.Repeat([]byte{byte(i)}, portion)
			all = append(all, p...)
			if n, err := out.Write(p); n != portion || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			if end := all[max(0, len(all)-tailSize):]; !bytes.Equal(out.bytes, end) {
				t.Fatalf("%d bytes are kept of %d, in portions of %d", len(out.bytes), len(all), portion)
			}
		}
		if cap(out.bytes) > 4*tailSize {
			t.Errorf("%d bytes of memory, in portions of %d", cap(out.bytes), portion)
		}
	}
}
