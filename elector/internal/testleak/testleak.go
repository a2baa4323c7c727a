// Package testleak fails a package's tests when they leave goroutines behind.
package testleak

import (
	"time"

	"go.uber.org/goleak"
)

// A pool of go-redis whose server did not answer tries once a second whether it
// is back (pool.ConnPool.tryDial), and only then notices that it was closed.
// goleak alone waits for less than half a second.
const maxWait = 10 * time.Second

// VerifyTestMain is goleak.VerifyTestMain, for packages whose tests close
// clients of servers that are gone: goroutines get ten seconds to end. None is
// exempt, so a client that is never closed is found.
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
