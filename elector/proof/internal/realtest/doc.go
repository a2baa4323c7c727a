// Package realtest is the integration tier: the public package elector on real
// servers (servertest) that hang, die, forget, refuse and fail over.
// See CONTRIBUTING.md. It holds tests only.
package realtest
