package realtest_test

const childEnv = "MANDATE_REALTEST_CHILD"

// child is the test binary as a process of its own.
func child() {}
