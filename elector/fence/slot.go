package fence

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

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
