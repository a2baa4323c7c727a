package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
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
them: what mandate doctor would find, and for how long that has been so; whether there
is a leader, how many candidates answer and could lead, whether it is paused, and
which Redis nodes can be read. It also sees elections whose candidates are all
gone, and programs that are not scraped. A group of shards is read as a whole,
and has series for the group and for each of its members, and none for its single
shards. Each job of a scheduler whose ticks are kept on these nodes has a series
of how long it is overdue.

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

	mu      sync.Mutex    // guards the fields below
	reading chan struct{} // closed when the reading that runs has ended; nil: none runs
	read    time.Time
	metrics []prometheus.Metric

	since map[subject]time.Time // of the reading: since when something of that level has been shown
}

// subject is what findings are about: an election, a group, or, without a name, the nodes; and how bad they are.
type subject struct {
	election, group string
	level           doctor.Level
}

// newExporter makes a handler of scrapes, of all elections under the Quorum's prefix.
func newExporter(q *elector.Quorum) http.Handler {
	registry := prometheus.NewRegistry()
	el, _ := q.Election(anyElection) // the prefix was checked
	e := &exporter{quorum: q, nobody: el, since: map[subject]time.Time{}}
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
	e.refresh(timeout)
	e.handler.ServeHTTP(w, r)
}

// refresh waits for a reading that is fresh, for less than the time-out of the scrape. Only one runs: a scrape that can wait for
// less than that one serves what was there before.
func (e *exporter) refresh(timeout time.Duration) {
	e.mu.Lock()
	if time.Since(e.read) < freshFor {
		e.mu.Unlock()
		return
	}
	if e.reading == nil {
		e.reading = make(chan struct{})
		go e.readAnew(timeout*8/10, e.reading)
	}
	done := e.reading
	e.mu.Unlock()
	select {
	case <-done:
	case <-time.After(timeout * 9 / 10):
	}
}

func (e *exporter) readAnew(within time.Duration, done chan struct{}) {
	metrics := e.readMetrics(within)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.metrics, e.read, e.reading = metrics, time.Now(), nil
	close(done)
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
	site := report{}
	var looked sync.WaitGroup
	looked.Go(func() {
		site.Writes = whileRead(ctx, e.quorum, e.nobody.Name(), func() { site.Status, site.StatusErr = e.nobody.Status(ctx) })
	})
	names, err := e.quorum.Elections(ctx)
	rows := foldedRows(names)
	rerr := readAll(ctx, e.quorum, rows, doctor.RecentTerms)
	took := time.Since(began)
	looked.Wait()
	s := &samples{prefix: e.quorum.Prefix(), now: time.Now(), was: e.since, since: map[subject]time.Time{}}
	// A minority that is away hides nothing: the names are on a majority. But a node lists at most so many.
	complete := rerr == nil && (err == nil || majorityAnswered(site.Status) && len(names) < 10_000)
	s.gauge("exporter_read_seconds", "How long the last reading of all elections took.", took.Seconds())
	for _, n := range site.Nodes {
		s.gauge("redis_node_up", "1 if the Redis node answers, 0 if it does not.", oneIf(n.Reachable || n.Answered), "node", n.Node)
	}
	listed, unread := map[string]bool{}, map[string]bool{}
	shared := slices.DeleteFunc(site.problems(), func(f doctor.Finding) bool { return f.Check != "majority" })
	for i := range rows {
		r := &rows[i]
		listed[r.Election] = true
		if r.group != nil {
			s.group(r)
		} else {
			s.election(r)
		}
		complete = complete && (r.TicksErr == nil || down(r.Nodes) > 0)
		if r.StatusErr != nil || r.CandidatesErr != nil {
			unread[r.Election] = true
		}
		shared = append(shared, s.findings(r, &site)...)
		for k := range r.Ticks {
			s.job(r.Election, &r.Ticks[k])
		}
	}
	s.lasting(subject{}, shared)
	for of, at := range e.since {
		name := cmp.Or(of.election, of.group+allShards)
		if _, still := s.since[of]; !still && (unread[name] || err != nil && !listed[name]) { // it may still be so
			s.since[of] = at
		}
	}
	e.since = s.since
	s.gauge("exporter_list_complete", "1 if all Redis nodes could be searched for elections, and all that were found could be read. 0: some are missing below, or series of them.", oneIf(complete))
	return s.all
}

// down returns how many of the nodes could not be read.
func down(all []elector.NodeStatus) int {
	return howMany(all, func(n elector.NodeStatus) bool { return !n.Reachable })
}

// findings adds those of an election or a group, and returns those that are about the nodes, which other elections share.
func (s *samples) findings(r, site *report) (shared []doctor.Finding) {
	of := subject{election: r.Election}
	own := r.Findings(nil)
	if r.group != nil {
		of, own = subject{group: r.group.Group}, r.groupFindings()
	}
	unfit := site.problem().Level == doctor.LevelFail // what the nodes refuse then is no election's own
	own = slices.DeleteFunc(own, func(f doctor.Finding) bool {
		is := f.Check == "same-server" || f.Check == "refuses" && unfit || f.Check == "majority" && down(r.Nodes) <= down(site.Nodes)
		if is {
			shared = append(shared, f)
		}
		return is
	})
	s.lasting(of, own)
	return shared
}

// lasting adds for how long what was found of a subject has been so: since the time that the finding names, or since the
// readings have shown something as bad, so that one cause that follows another is no new one.
func (s *samples) lasting(of subject, all []doctor.Finding) {
	longest := map[subject]map[string]float64{}
	for _, f := range all {
		if !f.Level.Worse(doctor.LevelUnknown) {
			continue
		}
		of.level = f.Level
		if longest[of] == nil {
			longest[of], s.since[of] = map[string]float64{}, s.now
			if was, ok := s.was[of]; ok {
				s.since[of] = was
			}
		}
		begin := s.since[of]
		if !f.Since.IsZero() && f.Since.Before(s.now) { // else by a clock ahead of ours
			begin = f.Since
		}
		longest[of][f.Check] = max(longest[of][f.Check], s.now.Sub(begin).Seconds())
	}
	for of, checks := range longest {
		for check, lasts := range checks {
			s.gauge("finding_seconds", "For how long mandate doctor would have found this, by its check and level (note, warn, fail). Without an election and a group: of the Redis nodes.",
				lasts, "election", of.election, "group", of.group, "check", check, "level", string(of.level))
		}
	}
}

// maxMembers is how many members of a group have their own series.
const maxMembers = 200

// samples collects gauges.
type samples struct {
	prefix     string
	all        []prometheus.Metric
	now        time.Time
	was, since map[subject]time.Time // of the exporter: before this reading, and after it
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

func (s *samples) election(r *report) {
	gauge := func(name, help string, value float64) { s.gauge("election_"+name, help, value, "election", r.Election) }
	if r.leaderKnown() {
		gauge("leader_known", "1 if a candidate holds the lock on a majority of the nodes, 0 if none does. Absent if that cannot be read.", oneIf(r.Leader != nil))
		gauge("paused", "1 while an operator wants no new leader.", oneIf(r.Paused))
	}
	if r.CandidatesErr != nil {
		return
	}
	gauge("candidates", "Candidates that answered the roll call. Absent if it could not be called.", float64(len(r.Candidates)))
	gauge("candidates_able", "Candidates that lead or could be elected.", float64(r.able()))
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
}

// group adds what is known of a group and of its members, and nothing for single shards.
func (s *samples) group(r *report) {
	if r.StatusErr != nil {
		return
	}
	st := &r.group.Status
	gauge := func(name, help string, value float64) { s.gauge("group_"+name, help, value, "group", st.Group) }
	gauge("shards", "Shards of the group.", float64(st.Shards))
	gauge("shards_unowned", "Shards that no member reports as its own.", float64(len(st.Unowned)))
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
