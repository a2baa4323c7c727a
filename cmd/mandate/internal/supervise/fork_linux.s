// A package without assembly may not declare functions that have no body, as fork_linux.go does.
