package main

import (
	"fmt"
	"net"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/exporter"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electorhttp/webguard"
)

const exporterHelp = `Serve metrics for Prometheus about every election of the prefix, as Redis knows
them: whether there is a leader and for how long not, how many candidates answer
and could lead, whether it is paused, and which Redis nodes can be read. It also
sees elections whose candidates are all gone, and programs that are not scraped.
A group of shards is read as a whole, and has series for the group and for each
of its members, and none for its single shards.

GET /metrics reads all elections, at most every 5 s and for at most 8 s: it
lists the elections, reads their status, and calls the roll of each.
GET /healthz does not query Redis. docs/alerts.yml has the alerts.`

const defaultExporter = "127.0.0.1:7483"

func (a *app) exporterCommand() *cobra.Command {
	var addr string
	var hosts []string
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Serve metrics about all elections for Prometheus",
		Long:  exporterHelp,
		Example: `  mandate exporter
  mandate exporter --http 0.0.0.0:7483`,
		Args: noNames(": it covers all elections of the prefix"),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			a.checkAddress(cmd.Context(), "--http", addr)
			a.checkNames("--host", hosts)
			return a.openQuorum(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.listenOn(cmd.Context(), addr)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "exporter: http://%s/metrics\n", l.Addr())
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return electorhttp.Serve(ctx, electorhttp.NewServer(a.exporterHandler(exporter.New(a.quorum), l, hosts)), l)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&addr, "http", defaultExporter, "`ADDR` to listen on; without a host it is the loopback interface")
	f.StringArrayVar(&hosts, "host", nil, "host `NAME` to answer under besides localhost and IP addresses; may be repeated")
	return cmd
}

// exporterHandler refuses requests under other host names, on the loopback interface and where
// names are listed. Otherwise a web site that points its own name to this address could read the
// metrics in the browsers of its visitors (DNS rebinding).
func (a *app) exporterHandler(e http.Handler, l net.Listener, hosts []string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", e)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("mandate exporter\nGET /metrics  for Prometheus\nGET /healthz  200 while it serves\n"))
	})
	at, ok := l.Addr().(*net.TCPAddr)
	names, refusals := len(hosts) > 0 || ok && at.IP.IsLoopback(), &webguard.Refusals{Log: a.log}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if names && refusals.Foreign(r, hosts) {
			http.Error(w, "not served under this name: mandate exporter --host NAME allows one", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
