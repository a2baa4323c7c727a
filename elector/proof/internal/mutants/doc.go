// Package mutants holds deliberate bugs, each a small patch in testdata, and
// shows that the tests catch every one of them. A test that has never failed
// proves little; this is where each claim of the library is broken once, on
// purpose.
//
// A patch begins with a header:
//
//	Breaks: what goes wrong, for a reader
//	Caught-by: <tier> <package> <test>
//
// with one Caught-by line for each test that is tried, the cheapest first. The
// tiers are those of CONTRIBUTING.md.
//
// An ordinary test run only checks that the patches still apply and compile, and
// that the tests they name exist. `make mutants` copies the module to temporary
// directories, makes one mistake at a time in each, and runs the tests that must
// notice.
//
// When a patch no longer applies, make the same mistake by hand in a clean
// checkout and put the outcome of
//
//	git diff -U1 -- elector health cmd
//
// under the patch's header. When the mistake has become impossible, delete the
// patch; when a mistake is made in earnest, add one.
package mutants
