//go:build unix

package main

import (
	"context"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console/consoletest"
)

// viewer ADDR [ELECTION] TEXT: looks at the console on ADDR until the table, or the opened
// election, shows the text.
func cmdViewer(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	ts.Check(consoletest.Await(ctx, "http://"+args[0], strings.Join(args[1:len(args)-1], ""), args[len(args)-1]))
}
