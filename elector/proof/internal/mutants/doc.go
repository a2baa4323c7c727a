// Package mutants holds deliberate bugs and shows that the tests notice every one
// of them: a test that has never failed proves little. Each bug breaks one promise
// of docs/safety.md.
//
// The bugs are the entries of testdata/*.txt. A heading is the promise that the bugs
// below it break:
//
//	# the lease counts from when the request was sent
//
//	lease-from-the-answer: the time that the answer took is given away
//		in: elector machine.claimAndJudge
//		replace: lease.NewGrant(m.clock, m.timing, sent)
//		with: lease.NewGrant(m.clock, m.timing, m.clock.Now())
//		judge: elector TestDeadlineCountsFromTheRequest
//
// "in" names a package's folder and a top-level function, method (Type.Name), type,
// constant or variable in it, or a Lua script. The fragment to replace must be there
// exactly once; it is compared token by token, so spaces, line breaks and comments
// do not matter. A longer fragment continues on lines that are indented twice. A bug
// of several parts has several in, replace and with. "judge" is the package and the
// test, or subtest, that must fail.
//
// An ordinary test run only checks that every fragment is found, that the outcome
// parses, and that the judges exist. `make mutants` makes one bug at a time, with go
// test -overlay, and runs its judge.
//
// When a fragment is not found any more, write the same bug for the code of today.
// When the bug has become impossible, delete the entry.
package mutants
