package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electorhttp/webguard"
)

const exporterHelp = `Serve metrics for Prometheus about every election of the prefix, as Redis knows
them: whether there is a leader and for how long not, how many candidates answer
and could lead, whether it is paused, and which Redis nodes can be read. It also
sees elections whose candidates are all gone, and programs that are not scraped.
A group of shards is read as a whole, and has series for the group and for each
of its members, and none for its single shards. Each job of a scheduler whose
ticks are kept on these nodes (mandate ticks NAME) has series: for how long it is
overdue, or blocked, and when ticks that nobody ran were found last.

GET /metrics reads all elections, at most every 5 s, and for at most 80 % of
the scrape's time-out, which Prometheus sends (8 s of 10 s): it lists the
elections, reads their status, and calls the roll of each.
GET /healthz does not query Redis. docs/alerts.yml has the alerts.`

func exporterCommand(c *connection) *cobra.Command {
	var addr string
	var hosts []string
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Serve metrics about all elections for Prometheus",
		Long:  exporterHelp,
		Example: `  mandate exporter
  mandate exporter --http 0.0.0.0:7483`,
		Args: noNames(": it covers all elections of the prefix"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			c.checkAddress(cmd.Context(), "--http", addr)
			return c.open(anyElection)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := c.listenOn(cmd.Context(), addr)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.stdout, "exporter: http://%s/metrics\n", l.Addr())
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return electorhttp.Serve(ctx, electorhttp.NewServer(exporterHandler(c.terminal, newExporter(c.quorum), l, hosts)), l)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&addr, "http", "127.0.0.1:7483", "`ADDR` to listen on; without a host it is the loopback interface")
	f.StringArrayVar(&hosts, "host", nil, "host `NAME` to answer under besides localhost and IP addresses; may be repeated")
	return cmd
}

// exporterHandler refuses requests under other host names, on the loopback interface and where
// names are listed. Otherwise a web site that points its own name to this address could read the
// metrics in the browsers of its visitors (DNS rebinding).
func exporterHandler(t *terminal, e http.Handler, l net.Listener, hosts []string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", e)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("mandate exporter\nGET /metrics  for Prometheus\nGET /healthz  200 while it serves\n"))
	})
	at, ok := l.Addr().(*net.TCPAddr)
	names, refusals := len(hosts) > 0 || ok && at.IP.IsLoopback(), &webguard.Refusals{Log: t.log}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if names && refusals.Foreign(r, hosts) {
			http.Error(w, "not served under this name: mandate exporter --host NAME allows one", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// These bound the load of scrapes.
const (
	freshFor      = 5 * time.Second  // a reading serves all scrapes for this time
	scrapeTimeout = 10 * time.Second // of a scrape that does not say how long it waits
)

// exporter reports elections to Prometheus as Redis knows them, including elections whose candidates are all
// gone, and programs that are not scraped.
type exporter struct {
	quorum  *elector.Quorum
	nobody  *elector.Election // its status shows the nodes
	handler http.Handler      // of the registry that holds this collector

	mu      sync.Mutex // held while Redis is read, so that only one reading runs; guards all fields below
	read    time.Time
	metrics []prometheus.Metric
	vacant  map[string]vacancy           // by election
	unowned map[string]map[int]time.Time // by group: since when each shard without an owner has been seen so
}

// vacancy is what the readings have shown of an election without a leader.
type vacancy struct {
	led   time.Time // when a leader was last seen
	term  time.Time // begin of the last term in the history
	since time.Time // when no leader was seen first; zero: there is one
}

// newExporter makes a handler of scrapes, of all elections under the Quorum's prefix.
func newExporter(q *elector.Quorum) http.Handler {
	registry := prometheus.NewRegistry()
	el, _ := q.Election(anyElection) // the prefix was checked
	e := &exporter{quorum: q, nobody: el, vacant: map[string]vacancy{}, unowned: map[string]map[int]time.Time{}}
	registry.MustRegister(prometheus.CollectorFunc(e.collect))
	// Two members with one id would have the same series: the others are served all the same.
	e.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return e
}

// ServeHTTP answers a scrape within its time-out: what a node that hangs keeps from being read is missing then, and no
// more. The reading continues when the client goes: otherwise the next scrape would have to begin again.
func (e *exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	timeout := scrapeTimeout
	if s, err := strconv.ParseFloat(r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds"), 64); err == nil && s > 0 {
		timeout = min(timeout, time.Duration(s*float64(time.Second)))
	}
	e.refresh(timeout * 8 / 10)
	e.handler.ServeHTTP(w, r)
}

func (e *exporter) refresh(within time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.read) >= freshFor {
		e.metrics = e.readMetrics(within)
		e.read = time.Now()
	}
}

// collect is a prometheus.CollectorFunc of the newest reading, which describes nothing at first: what there is depends on Redis.
func (e *exporter) collect(ch chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.metrics {
		ch <- m
	}
}

func (e *exporter) readMetrics(within time.Duration) []prometheus.Metric {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	began := time.Now()
	var nodes elector.Status
	var looked sync.WaitGroup
	looked.Go(func() { nodes, _ = e.nobody.Status(ctx) }) // it has the errors of the nodes
	names, err := e.quorum.Elections(ctx)
	rows := foldedRows(names)
	rerr := readAll(ctx, e.quorum, rows, 1)
	took := time.Since(began)
	s := &samples{prefix: e.quorum.Prefix()}
	complete := err == nil && rerr == nil
	s.gauge("exporter_read_seconds", "How long the last reading of all elections took.", took.Seconds())
	looked.Wait()
	for _, n := range nodes.Nodes {
		s.gauge("redis_node_up", "1 if the Redis node answers, 0 if it does not.", oneIf(n.Reachable || n.Answered), "node", n.Node)
	}
	now, there := time.Now(), map[string]bool{}
	for i := range rows {
		r := &rows[i]
		there[r.Election] = true
		if r.group != nil {
			s.group(r, e.unownedFor(r, now))
		} else {
			s.election(r, e.leaderless(r, now))
		}
		complete = complete && r.TicksErr == nil
		for k := range r.Ticks {
			s.job(r.Election, &r.Ticks[k])
		}
	}
	s.gauge("exporter_list_complete", "1 if all Redis nodes could be searched for elections, and all that were found could be read. 0: some are missing below, or series of them.", oneIf(complete))
	if err == nil { // otherwise elections that are missing now may still exist
		maps.DeleteFunc(e.vacant, func(name string, _ vacancy) bool { return !there[name] })
		maps.DeleteFunc(e.unowned, func(name string, _ map[int]time.Time) bool { return !there[name] })
	}
	return s.all
}

// leaderless returns for how many seconds an election has had no leader: since the reported end of
// the last term, or else since that was first seen. A term whose end was never reported may have
// lasted until a moment ago, and too short is the safe side: an election that has been vacant for a
// day and has no candidates no longer raises an alarm. +Inf: no leader was ever seen.
func (e *exporter) leaderless(r *report, now time.Time) float64 {
	v := e.vacant[r.Election]
	var last elector.TermRecord // zero: unknown, or there is none
	if len(r.Terms) > 0 && !r.Terms[0].Current {
		last = r.Terms[0]
	}
	switch {
	case !r.leaderKnown():
		return 0
	case r.Leader != nil:
		e.vacant[r.Election] = vacancy{led: now}
		return 0
	case v.since.IsZero(), last.From.After(v.since) && !last.From.Equal(v.term): // in the latter case a leader was elected and vanished between two readings
		v.since = now
	}
	v.term = cmp.Or(last.From, v.term)
	e.vacant[r.Election] = v
	switch {
	case r.TermsErr == nil && len(r.Terms) == 0 && v.led.IsZero(): // counted from now, it would seem missed again after each restart of the exporter
		return math.Inf(1)
	case last.Until.After(v.led) && last.Until.Before(v.since): // otherwise it is the end of an earlier term, or its leader's clock is ahead
		return lasting(last.Until, now)
	default:
		return lasting(v.since, now)
	}
}

// lasting returns the seconds since a time, and never zero, so that an alert can test it at once.
func lasting(since, now time.Time) float64 { return max(time.Millisecond, now.Sub(since)).Seconds() }

// unownedFor returns for how many seconds the shard that is longest without an owner has been seen so.
func (e *exporter) unownedFor(r *report, now time.Time) (longest float64) {
	switch {
	case r.StatusErr != nil:
		return 0
	case r.group.gone && !r.group.missed: // counted from now, it would seem missed again after each restart of the exporter
		delete(e.unowned, r.Election)
		return math.Inf(1)
	}
	since := map[int]time.Time{}
	for _, v := range r.group.Unowned {
		since[v.Shard] = cmp.Or(e.unowned[r.Election][v.Shard], now)
		longest = max(longest, lasting(since[v.Shard], now))
	}
	e.unowned[r.Election] = since
	return longest
}

// maxMembers is how many members of a group have their own series.
const maxMembers = 200

// samples collects gauges.
type samples struct {
	prefix string
	all    []prometheus.Metric
}

// gauge adds a value with the prefix and pairs of further labels. Anyone who may write to Redis can
// choose the names of elections, so their bytes may be no text.
func (s *samples) gauge(name, help string, value float64, labels ...string) {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, strings.ToValidUTF8(labels[i+1], "\uFFFD"))
	}
	desc := prometheus.NewDesc("mandate_"+name, help, names, prometheus.Labels{"prefix": s.prefix})
	if m, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, values...); err == nil {
		s.all = append(s.all, m)
	}
}

func (s *samples) election(r *report, leaderless float64) {
	gauge := func(name, help string, value float64) { s.gauge("election_"+name, help, value, "election", r.Election) }
	if r.leaderKnown() {
		gauge("leader_known", "1 if a candidate holds the lock on a majority of the nodes, 0 if none does. Absent if that cannot be read.", oneIf(r.Leader != nil))
		gauge("leaderless_seconds", "Time since the last leader, 0 while there is one. Of a leader that vanished: since it was first missed here. +Inf: none was ever seen.", leaderless)
		gauge("paused", "1 while an operator wants no new leader.", oneIf(r.Paused))
	}
	if r.CandidatesErr != nil {
		return
	}
	able, all, observers := r.count()
	gauge("candidates", "Candidates that answered the roll call, without observers. Absent if it could not be called.", float64(all))
	gauge("observers", "Observers that answered the roll call: they never campaign. Absent if it could not be called.", float64(observers))
	gauge("candidates_able", "Candidates that lead or could be elected.", float64(able))
}

// job adds what is known of a job. Its label is not "job", which Prometheus gives to the program that it scrapes.
func (s *samples) job(election string, j *doctor.Job) {
	gauge := func(name, help string, value float64, labels ...string) {
		s.gauge("tick_"+name, help, value, append(labels, "election", election, "scheduled_job", j.Job)...)
	}
	last := cmp.Or(string(j.Run.Outcome), "running")
	if j.Run.Began.IsZero() {
		last = "never"
	}
	gauge("overdue_seconds", "For how long the next tick of the job has been due, by the clock of its Redis; 0: it is not. last_run is how the newest run ended.",
		j.Late.Seconds(), "last_run", last)
	gauge("blocked_seconds", "For how long the job can't run, because its mark is in the future; 0: it can.", j.Ahead.Seconds())
	if len(j.Skipped) > 0 {
		gauge("skipped_timestamp_seconds", "When ticks of the job that nobody ran were found last. Absent: never.", float64(j.Skipped[0].Found.UnixMilli())/1000)
	}
}

// group adds what is known of a group and of its members, and nothing for single shards.
func (s *samples) group(r *report, unowned float64) {
	if r.StatusErr != nil {
		return
	}
	st := &r.group.Status
	gauge := func(name, help string, value float64) { s.gauge("group_"+name, help, value, "group", st.Group) }
	gauge("shards", "Shards of the group.", float64(st.Shards))
	gauge("shards_unowned", "Shards that no member reports as its own.", float64(len(st.Unowned)))
	gauge("unowned_seconds", "For how long the shard that is longest without an owner has been seen so, 0 while all have one. +Inf: the group has had no members for a day.", unowned)
	gauge("shards_moving", "Shards that a member owns and another one is to own.", float64(len(st.Moving)))
	gauge("members", "Living members.", float64(len(st.Members)))
	gauge("members_open", "Living members that want shards: healthy, and not stopping.", float64(r.group.open()))
	gauge("assigner_known", "1 if a member makes the plans, 0 if none does or that cannot be read.", oneIf(st.Assigner != ""))
	for i := range min(len(st.Members), maxMembers) {
		m := &st.Members[i]
		s.gauge("group_member_owned", "Shards that the member owns.", float64(len(m.Owned)), "group", st.Group, "member", m.ID)
		s.gauge("group_member_due", "Shards that the member should own, by its weight.", m.Due, "group", st.Group, "member", m.ID)
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
