//go:build unix

package main

import (
	"context"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console/consoletest"
)

// viewer ADDR TEXT: looks at the console on ADDR until it tells the text.
func cmdViewer(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ts.Check(consoletest.Await(ctx, "http://"+args[0], args[1]))
}
