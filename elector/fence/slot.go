package fence

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// checkSlots refuses what a Cluster can't do in one step, before anything is
// sent. Other deployments have no slots.
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

// slot is the hash slot of a key, by Redis Cluster's rule: CRC16 (XMODEM) of what
// stands in the first pair of braces, if anything does.
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

// keysOf is the first key of each command. That is enough to find data of another
// slot; were a later key of a command in another one, the server would refuse to queue
// it, and with it the whole transaction.
func keysOf(cmds []redis.Cmder) []string {
	var keys []string
	for _, cmd := range cmds {
		args := cmd.Args()
		if i := firstKey(strings.ToLower(cmd.Name())); i < len(args) {
			keys = append(keys, fmt.Sprint(args[i]))
		}
	}
	return keys
}

// firstKey is where a command has its first key; far out when it has none.
func firstKey(name string) int {
	switch {
	case slices.Contains([]string{"eval", "evalsha", "fcall"}, name):
		return 3
	case slices.Contains([]string{"xgroup", "bitop", "object", "memory"}, name):
		return 2
	case slices.Contains([]string{"publish", "ping", "echo", "time", "script", "function", "xread", "xreadgroup"}, name):
		return 1 << 20
	}
	return 1
}
