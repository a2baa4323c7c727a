// Package testleak fails a package's tests when they leave goroutines behind.
package testleak

import (
	"time"

	"go.uber.org/goleak"
)

// maxWait is how long goroutines may take to end. When a server did not answer, the go-redis
// pool dials it once a second (pool.ConnPool.tryDial), and notices only then that it was closed.
// goleak alone waits for less than half a second.
const maxWait = 10 * time.Second

// VerifyTestMain is goleak.VerifyTestMain for packages whose tests close clients of servers
// that are gone: it gives goroutines ten seconds to end. It exempts no goroutine, so it finds
// a client that is never closed.
func VerifyTestMain(m goleak.TestingM) {
	goleak.VerifyTestMain(patientMain{m})
}

type patientMain struct{ goleak.TestingM }

func (m patientMain) Run() int {
	code := m.TestingM.Run()
	for began := time.Now(); code == 0 && time.Since(began) < maxWait && goleak.Find() != nil; {
		time.Sleep(50 * time.Millisecond)
	}
	return code
}
