package main

import (
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// The demo's processes start together, on a file that none of them has made yet. SQLite turned
// the legacy application away, and the demo handled nothing.
func TestSQLiteIsMadeOnceByMany(t *testing.T) {
	dir := t.TempDir()
	for i := range 300 {
		path, start := filepath.Join(dir, strconv.Itoa(i)), make(chan struct{})
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				<-start
				db, err := openDatabase(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				db.Close()
			})
		}
		close(start)
		all.Wait()
	}
}
