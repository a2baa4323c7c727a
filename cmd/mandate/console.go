package main

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
)

const consoleHelp = `Serve one live page with every election of the prefix in a table, those with
problems first, with what is wrong and the command to type next. A row opens to
the candidates and their health, and the latest terms with the reason of each
end; the page's address holds the open ones (#orders). A group of shards is one
row, which opens to its members. With names, only those elections and groups (GROUP#*).

The page is read-only. Redis is queried only while it is open, whatever the
number of viewers: at most 50 elections a second.

Anyone who can reach the port can read the page, unless --token-file names a
token; the default is the loopback interface. GET /healthz is for probes.`

const defaultConsole = "127.0.0.1:7481"

func (a *app) consoleCommand() *cobra.Command {
	var addr, tokenFile string
	var hosts []string
	cmd := &cobra.Command{
		Use:   "console [NAME...]",
		Short: "Serve a live page with all elections",
		Long:  consoleHelp,
		Example: `  mandate console
  mandate console --token-file /run/secrets/console poller reports
  ssh -L 7481:127.0.0.1:7481 HOST      then open http://127.0.0.1:7481`,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&addr, "http", defaultConsole, "`ADDR` to listen on; without a host it is the loopback interface")
	f.StringArrayVar(&hosts, "host", nil, "host `NAME` to answer under besides localhost and IP addresses; may be repeated")
	f.StringVar(&tokenFile, "token-file", "", "`FILE` with a token that the page needs, as the password; any user name")
	token := ""
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		a.checkAddress(cmd.Context(), "--http", addr)
		if tokenFile != "" {
			token = a.secret("--token-file", tokenFile)
		}
		if err := a.openQuorum(cmd, nil); err != nil {
			return err
		}
		for _, name := range args {
			if _, err := a.quorum.Election(name); err != nil {
				a.addProblems(err, func(string) string { return "the name of an election" })
			}
		}
		return a.usage()
	}
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		l, err := a.listenOn(cmd.Context(), addr)
		if err != nil {
			return err
		}
		if at, ok := l.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && token == "" {
			a.log.Warn("page is readable by anyone who can reach this address", "address", l.Addr().String())
		}
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		return a.serveConsole(ctx, l, console.Config{Hosts: hosts, Token: token, Logger: a.log}, names)
	}
	return cmd
}

// serveConsole serves the page with these elections of the quorum, or all of them, until ctx ends.
func (a *app) serveConsole(ctx context.Context, l net.Listener, cfg console.Config, names []string) error {
	fmt.Fprintf(a.stdout, "console: http://%s\n", l.Addr())
	ctx, cancel := context.WithCancel(ctx)
	page := console.New(cfg)
	feed := &feed{quorum: a.quorum, names: names, flags: a.given, page: page}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { feed.run(ctx) })
	return page.Serve(ctx, l)
}
