// Package proof holds what takes the whole of elector apart on purpose and checks what
// happened: the simulation (simtest), real servers that hang, die and refuse (realtest), and deliberate bugs that the
// tests must notice (mutants). Nothing of the library imports it, and no name in it is a promise.
package proof
