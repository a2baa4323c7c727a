package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
)

const consoleHelp = `Serve one live page with every election of the prefix in a table, those with
problems first. A line opens to the leader, the lease, the candidates and their
health, and the latest terms with the reason of each end; the page's address
holds the open ones (#orders). A group of shards is one line, which opens to a
map of them. With names, only those elections and groups.

Redis is queried only while the page is open, whatever the number of viewers:
at most about 200 elections a second, and every open one each second.

Anyone who can reach the port can read the page, unless --read-token-file names
a token; the default is the loopback interface. With --actions there are buttons
to resign, transfer, pause and resume; they need the token that is printed at
the start, or that --token-file holds. The view by host has one that hands over
all that a host leads. Scripts may POST the same to /api/resign, /api/drain and
so on, whether or not a page is open. GET /healthz is for probes.

Exit codes
  0  ended by a signal
  2  invalid flags or arguments
  1  anything else`

const defaultConsole = "127.0.0.1:7481"

type consoleFlags struct {
	http, tokenFile    string
	readFile, basePath string
	actions            bool
	hosts, proxies     []string

	readToken string
	networks  []netip.Prefix
}

func (a *app) consoleCommand() *cobra.Command {
	var o consoleFlags
	cmd := &cobra.Command{
		Use:   "console [NAME...]",
		Short: "Serve a live page with all elections",
		Long:  consoleHelp,
		Example: `  mandate console
  mandate console --actions --token-file /run/secrets/console poller reports
  ssh -L 7481:127.0.0.1:7481 HOST      then open http://127.0.0.1:7481`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.http, "http", defaultConsole, "`ADDR` to listen on; without a host it is the loopback interface")
	f.BoolVar(&o.actions, "actions", false, "buttons to resign, transfer, pause and resume, protected by a token")
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE` with the token for --actions (default: a new one, printed at the start)")
	f.StringArrayVar(&o.hosts, "host", nil, "host `NAME` to answer under besides localhost and IP addresses; may be repeated")
	f.StringVar(&o.readFile, "read-token-file", "", "`FILE` with a token that the page needs, as the password; any user name")
	f.StringVar(&o.basePath, "base-path", "", "`PATH` where a proxy serves the page, such as /mandate")
	f.StringArrayVar(&o.proxies, "trusted-proxy", nil, "`ADDR` or network of a proxy whose X-Forwarded-For, and login (X-Forwarded-User, X-Auth-Request-User, Remote-User), are believed; may be repeated")
	var token string
	var c *console.Console
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		a.checkAddress(cmd.Context(), "--http", o.http)
		a.checkNames("--host", o.hosts)
		token = a.consoleToken(&o)
		a.consoleReaders(&o, token)
		if err = a.openQuorum(cmd, args); err == nil {
			c, err = a.console(&o, token, args)
		}
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		l, err := listenOn(cmd.Context(), "--http", o.http)
		if err != nil {
			return err
		}
		a.announce(l, &o, token)
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop) // a second signal ends the process at once
		return c.Serve(ctx, l)
	}
	return cmd
}

// console makes the page for these elections.
func (a *app) console(o *consoleFlags, token string, elections []string) (*console.Console, error) {
	c, err := console.New(console.Config{
		Quorum: a.quorum, Elections: elections, Token: token, Hosts: o.hosts, Logger: a.log,
		ReadToken: o.readToken, BasePath: o.basePath, Proxies: o.networks,
	})
	if err != nil {
		a.addProblems(err, func(setting string) string {
			if setting == "Election" {
				return "the name of an election"
			}
			return a.flagFor(setting)
		})
		return nil, a.usage()
	}
	return c, nil
}

// consoleToken returns the token that the buttons need; empty without --actions.
func (a *app) consoleToken(o *consoleFlags) string {
	switch {
	case !o.actions && o.tokenFile != "":
		a.problem("--token-file is given without --actions: the page has no buttons then")
		return ""
	case !o.actions:
		return ""
	case o.tokenFile == "":
		return rand.Text()
	}
	return a.secret("--token-file", o.tokenFile)
}

// consoleReaders checks the flags about who may read the page, and through which proxies.
func (a *app) consoleReaders(o *consoleFlags, token string) {
	if o.readFile != "" {
		o.readToken = a.secret("--read-token-file", o.readFile)
	}
	if token != "" && o.readToken == token {
		a.problem("--read-token-file and --token-file hold the same token: anyone who may read the page could act, too")
	}
	for _, p := range o.proxies {
		network, err := netip.ParsePrefix(p)
		if addr, aerr := netip.ParseAddr(p); aerr == nil {
			network, err = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
		}
		if err != nil {
			a.problem("--trusted-proxy %q is no address or network: give one such as 10.0.0.7 or 10.0.0.0/8", p)
		}
		o.networks = append(o.networks, network)
	}
	if err := console.CheckBasePath(o.basePath); err != nil {
		a.problem("--base-path %q is no path: give one such as /mandate", o.basePath)
	}
}

// announce prints the URL of the page. A token that the user has chosen is not printed.
func (a *app) announce(l net.Listener, o *consoleFlags, token string) {
	fmt.Fprintf(a.stdout, "console: http://%s%s\n", l.Addr(), strings.TrimRight(o.basePath, "/"))
	if token != "" && o.tokenFile == "" {
		fmt.Fprintf(a.stdout, "token:   %s\n", token)
	}
	if addr, ok := l.Addr().(*net.TCPAddr); ok && !addr.IP.IsLoopback() && o.readFile == "" {
		a.log.Warn("page is readable by anyone who can reach this address", slog.String("address", l.Addr().String()))
	}
}
