package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

var must = servertest.Must

// hostile is what a candidate reports that wants to be markup.
const hostile = `</script><img src=x onerror="document.title='hacked'"><b>bold</b>`

// visit is a script beside the page's own one: it waits for each state of the page that it names,
// and posts what it has not seen.
const visit = `
const missing = [];
const see = async (what, is) => {
  for (const end = Date.now() + 60000; Date.now() < end; await new Promise((r) => setTimeout(r, 50))) {
    try { if (is()) return; } catch {}
  }
  missing.push(what + ": " + document.body.innerText.slice(0, 2000));
  await done();
  throw new Error("not seen: " + what);
};
const post = (path, body) => fetch(path, { method: "POST", body });
const row = (election) => document.getElementById("e-" + election);
const text = (election) => row(election).innerText;
const fits = () => document.documentElement.scrollWidth <= document.documentElement.clientWidth;
const button = (election) => row(election).querySelector("button");
addEventListener("securitypolicyviolation", (e) => missing.push("the policy was violated by " + e.blockedURI));
addEventListener("error", (e) => missing.push("an error: " + e.message));

const done = () => post("/seen", JSON.stringify(missing));
if (location.hash === "#away") {
  await see("no number of elections while Redis is away", () => document.title === "(?) mandate" && !/\d elections/.test(document.body.innerText));
  await done();
  throw new Error("nothing else to see");
}
await see("live, with all nodes", () => document.querySelector("#line").innerText === "live" && document.querySelector("#nodes").innerText.includes("Redis 3/3"));
await see("the leader, its address and age", () => /orders[^]*\ba\b[^]*a\.example:80[^]*\d+s[^]*2\/2/.test(text("orders")));
await see("the group", () => text("tenants#*").includes("4/4 owned"));
await see("vacant first, with what is wrong and what to type", () => document.querySelector("#elections > tbody").id === "e-vacant" && text("vacant").includes("0 of 1 candidates could lead") && text("vacant").includes("fix the work or its probe"));
await see("the number in the title", () => document.title === "(1) mandate" && document.querySelector("#summary").innerText === "3 elections, 1 urgent");
await see("open, as the address says", () => button("vacant").ariaExpanded === "true" && button("orders").ariaExpanded === "false");
await see("hostile text as text", () => text("vacant").includes("<b>bold</b>") && !document.querySelector("main img, main b, main script"));
button("orders").click();
await see("the candidates and terms", () => /Candidates[^]*leading[^]*following[^]*Terms[^]*leads/.test(text("orders")) && location.hash === "#vacant,orders");
button("tenants#*").click();
await see("the members", () => text("tenants#*").includes("owns 0-3; assigns"));
await see("nothing beside the screen", fits);
button("orders").focus();
await post("/resign");
await see("the next leader, and why the last one ended", () => /b\.example:80[^]*resigned/.test(text("orders")));
await see("the focus is kept", () => document.activeElement === button("orders"));
const filter = document.querySelector("#filter");
filter.value = "tenants";
filter.dispatchEvent(new Event("input"));
await see("filtered", () => row("orders").hidden && !row("tenants#*").hidden);
filter.value = "Vacant";
filter.dispatchEvent(new Event("input"));
await see("filtered by state", () => row("orders").hidden && row("tenants#*").hidden && !row("vacant").hidden);
filter.value = "";
filter.dispatchEvent(new Event("input"));
const header = (title) => [...document.querySelectorAll("#elections > thead button")].find((b) => b.textContent === title);
const sorted = () => [...document.querySelectorAll("#elections > tbody")].map((e) => e.id).join(" ");
header("election").click();
await see("sorted by name", () => sorted() === "e-orders e-tenants#* e-vacant" && header("election").parentNode.ariaSort === "ascending");
header("last end").click();
await see("the newest end first", () => sorted().startsWith("e-orders") && header("last end").parentNode.ariaSort === "descending");
header("what is wrong").click();
await see("problems first again", () => sorted().startsWith("e-vacant"));
await post("/rival");
await see("two leaders are urgent", () => row("orders").className === "rank0" && row("orders").querySelector(".why .bad").innerText.includes("both may lead") && document.title === "(2) mandate");
await post("/minority");
await see("a node that is down, and all still known", () => document.title === "(1) mandate" && document.querySelector("#nodes").innerText.includes("Redis 2/3") && document.querySelector("#line").innerText === "live" && !document.body.classList.contains("stale"));
await post("/majority");
await see("grey, as of when", () => document.title === "(?) mandate" && document.body.classList.contains("stale") && /no majority of the Redis nodes answers; as of \d/.test(document.querySelector("#line").innerText) && text("orders").includes("b.example:80"));
await see("nothing beside the screen at the end", fits);
await done();
`

// One pass through the page in a browser, at the width of a desk and of a phone.
func TestConsoleInABrowserReal(t *testing.T) {
	chromium := servertest.NeedProgram(t, "apt-get install chromium", "chromium", "chromium-browser", "google-chrome")
	for name, size := range map[string]string{"desk": "1280,800", "phone": "390,844"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var nodes []*miniredis.Miniredis
			var urls []string
			for range 3 {
				m := miniredis.RunT(t)
				m.ClockTTL(true)
				nodes = append(nodes, m)
				urls = append(urls, "redis://"+m.Addr())
			}
			campaign := func(election, id string, probe health.Probe) *elector.Elector {
				return runCandidate(t, openQuorum(t, urls...), elector.Config{
					Election: election, ID: id, Advertise: id + ".example:80", Lease: 30 * time.Second, Cooldown: time.Minute, Probe: probe,
				})
			}
			a := campaign("orders", "a", nil)
			for end := time.Now().Add(time.Minute); !a.IsLeader() && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			}
			campaign("orders", "b", nil)
			campaign("vacant", "x", health.Func(func(context.Context) error { return errors.New(hostile) }))
			runMember(t, openQuorum(t, urls...), shard.Config{Group: "tenants", Shards: 4, ID: "m"}, nil)
			missing := make(chan []byte, 1)
			page := browsedPage(t, urls, map[string]func(body []byte){
				"/resign": func([]byte) { go func() { _ = a.Resign(context.Background()) }() },
				"/rival": func([]byte) { // that votes with one node; two of the three have b's lock
					for _, m := range nodes[:2] {
						if lock, err := m.Get("mandate:{orders}:lock"); err == nil && strings.HasPrefix(lock, "b/") {
							rival := regexp.MustCompile("^b/[^/]+/(.*) n=3 ").ReplaceAllString(lock, "z/ANOTHERPROCESS00/$1 n=1 ")
							if err := nodes[2].Set("mandate:{orders}:lock", rival); err != nil {
								t.Error(err)
							}
						}
					}
				},
				"/minority": func([]byte) { nodes[2].Close() },
				"/majority": func([]byte) { nodes[1].Close() },
				"/seen":     func(body []byte) { missing <- body },
			})
			t.Cleanup(func() { // so that the candidates can release their locks
				_ = nodes[1].Restart()
				_ = nodes[2].Restart()
			})
			browse(t, chromium, size, page+"#vacant", missing)
		})
	}
	t.Run("opened while Redis is away", func(t *testing.T) {
		t.Parallel()
		missing := make(chan []byte, 1)
		page := browsedPage(t, []string{"redis://127.0.0.1:1"}, map[string]func([]byte){"/seen": func(body []byte) { missing <- body }})
		browse(t, chromium, "1280,800", page+"#away", missing)
	})
}

// browse opens a page, and reports what its visit has not seen.
func browse(t *testing.T, chromium, size, url string, missing <-chan []byte) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
		"--user-data-dir="+t.TempDir(), "--window-size="+size, url)
	cmd.Stderr, cmd.WaitDelay = io.Discard, time.Minute // a pipe: Wait awaits all processes of the browser, which write to its folder
	must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var found []string
	select {
	case got := <-missing:
		must(t, json.Unmarshal(got, &found))
	case <-ctx.Done():
		t.Fatal("the browser does not answer")
	}
	for _, what := range found {
		t.Errorf("not seen: %s", what)
	}
}

// browsedPage serves the console's page on the real clock, with the script that visits it, and with
// what that script can have happen. It returns the URL.
func browsedPage(t *testing.T, urls []string, happens map[string]func([]byte)) string {
	page := console.New(console.Config{})
	f := newFeed(t, openQuorum(t, urls...), page)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f.run(ctx) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch do := happens[r.URL.Path]; {
		case do != nil:
			do(body)
		case r.URL.Path == "/visit.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, visit)
		case r.URL.Path == "/":
			var html httptest.ResponseRecorder
			html.Body = &bytes.Buffer{}
			page.ServeHTTP(&html, r)
			for name, values := range html.Header() {
				w.Header()[name] = values
			}
			w.Header().Del("Content-Length")
			_, _ = io.WriteString(w, strings.Replace(html.Body.String(), "</body>", `<script type="module" src="visit.js"></script></body>`, 1))
		default:
			page.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		cancel()
		server.CloseClientConnections()
		server.Close()
		wg.Wait()
	})
	return server.URL + "/"
}

// viewer is a viewer of the console's page, and what it has received. It is its own ResponseWriter.
type viewer struct {
	mu     sync.Mutex
	events bytes.Buffer
	header http.Header
}

func (v *viewer) Header() http.Header { return v.header }
func (v *viewer) WriteHeader(int)     {}
func (v *viewer) Flush()              {}
func (v *viewer) Write(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.events.Write(b)
}

// page returns the rows and the site as last received.
func (v *viewer) page(t *testing.T) (rows map[string]console.Row, site console.Site) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	rows = map[string]console.Row{}
	for event := range strings.SplitSeq(v.events.String(), "\n\n") {
		kind, data, _ := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
		var row console.Row
		var err error
		switch kind {
		case "site":
			site = console.Site{}
			err = json.Unmarshal([]byte(data), &site)
		case "row":
			err = json.Unmarshal([]byte(data), &row)
			rows[row.Election] = row
		case "gone":
			err = json.Unmarshal([]byte(data), &row)
			delete(rows, row.Election)
		}
		if err != nil {
			t.Errorf("%v: %s", err, event)
		}
	}
	return rows, site
}

func newFeed(t *testing.T, q *elector.Quorum, page *console.Page) *feed {
	el, err := q.Election(anyElection)
	must(t, err)
	return &feed{quorum: q, nobody: el, page: page}
}

// viewed runs a feed, and a viewer of its page until leave is called.
func viewed(t *testing.T, r *electortest.Redis) (v *viewer, leave context.CancelFunc) {
	page := console.New(console.Config{})
	f := newFeed(t, r.Quorum("console"), page)
	ctx, cancel := context.WithCancel(context.Background())
	viewing, leave := context.WithCancel(ctx)
	v = &viewer{header: http.Header{}}
	var wg sync.WaitGroup
	wg.Go(func() { f.run(ctx) })
	wg.Go(func() {
		page.ServeHTTP(v, httptest.NewRequestWithContext(viewing, http.MethodGet, "http://localhost/api/live", http.NoBody))
	})
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	return v, leave
}

// runCandidate campaigns until the test ends.
func runCandidate(t *testing.T, q *elector.Quorum, cfg elector.Config) *elector.Elector {
	t.Helper()
	cfg.Lease, cfg.Logger = cmp.Or(cfg.Lease, 10*time.Second), slog.New(slog.DiscardHandler)
	e, err := elector.New(q, cfg)
	must(t, err)
	runUntilEnd(t, func(ctx context.Context) error {
		return e.Run(ctx, new(elector.Gate).Work)
	})
	return e
}

// runMember runs a member of a group until the test ends; without work its shards wait for their end.
func runMember(t *testing.T, q *elector.Quorum, cfg shard.Config, work shard.Work) {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	m, err := shard.New(q, cfg)
	must(t, err)
	if work == nil {
		work = func(ctx context.Context, _ *shard.Term) error {
			<-ctx.Done()
			return nil
		}
	}
	runUntilEnd(t, func(ctx context.Context) error { return m.Run(ctx, work) })
}

// runUntilEnd runs run until the test ends, by when its Redis may be gone.
func runUntilEnd(t *testing.T, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = run(ctx) })
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
}

func TestConsoleShowsElections(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		var sick electortest.Probe
		a := runCandidate(t, r.Quorum("a"), elector.Config{Election: "e", ID: "a", Advertise: "a:80"})
		r.Lead(a)
		runCandidate(t, r.Quorum("b"), elector.Config{Election: "e", ID: "b", Advertise: "b:80", Probe: &sick})
		electortest.Advance(time.Second)
		v, _ := viewed(t, r)
		electortest.Advance(3 * time.Second)
		rows, site := v.page(t)
		e := rows["e"]
		if e.State != "led" || e.Rank != console.RankWell || e.Leader != "a" || e.Address != "a:80" || e.Token == 0 || e.SinceMS == 0 || e.Able != "2/2" || e.Problem != "" || len(e.Candidates) != 2 || len(e.Terms) == 0 || !e.Terms[0].Current {
			t.Errorf("%+v", e)
		}
		if site.Prefix != "mandate" || !site.Known || len(site.Nodes) != 1 || site.Nodes[0].Error != "" {
			t.Errorf("%+v", site)
		}
		sick.Fail(context.DeadlineExceeded)
		electortest.Advance(12 * time.Second)
		rows, _ = v.page(t)
		if e := rows["e"]; e.Rank != console.RankProblem || !strings.Contains(e.Problem, "b: unhealthy") || e.Next != "fix the work or its probe" || e.Candidates[1].OK || e.Candidates[1].Health != "unhealthy" {
			t.Errorf("%+v", e)
		}
		// A change of the leader shows within a second, and soon why the last term ended.
		sick.Pass()
		electortest.Advance(12 * time.Second)
		must(t, a.Resign(t.Context()))
		electortest.Advance(1500 * time.Millisecond)
		if rows, _ = v.page(t); rows["e"].Leader != "b" {
			t.Errorf("%+v", rows["e"])
		}
		electortest.Advance(2 * time.Second)
		if rows, _ = v.page(t); len(rows["e"].Terms) < 2 || rows["e"].Terms[1].Reason != "resigned" || !rows["e"].Terms[1].Wanted {
			t.Errorf("%+v", rows["e"])
		}
		// Rows stay while Redis can't be read, with the time of the last reading.
		heal := r.CutOff("console")
		electortest.Advance(20 * time.Second)
		if rows, site = v.page(t); site.Known || site.AsOfMS == 0 || site.Nodes[0].Error == "" || rows["e"].Leader != "b" {
			t.Errorf("%+v, %+v", site, rows["e"])
		}
		heal()
		electortest.Advance(20 * time.Second)
		if _, site = v.page(t); !site.Known {
			t.Errorf("%+v", site)
		}
		// An invalid name, and an election that ends.
		keys := r.Client("someone")
		now := float64(time.Now().UnixMilli())
		must(t, keys.ZAdd(t.Context(), "mandate:elections", redis.Z{Member: "x y", Score: now}, redis.Z{Member: "f", Score: now}).Err())
		electortest.Advance(15 * time.Second)
		if rows, _ = v.page(t); rows["f"].State != "abandoned" || rows["f"].Rank != console.RankAbandoned || len(rows) > 3 {
			t.Errorf("%+v", rows)
		}
		keys.ZRem(t.Context(), "mandate:elections", "f")
		electortest.Advance(15 * time.Second)
		if rows, _ = v.page(t); rows["f"].Election != "" {
			t.Errorf("%+v", rows["f"])
		}
	})
}

// A new page has all elections within 3 s, however many there are.
func TestConsoleShowsAllAtOnce(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		for i := range 500 {
			must(t, r.Client("x").ZAdd(t.Context(), "mandate:elections", listedNow(fmt.Sprint("e", i))).Err())
		}
		v, _ := viewed(t, r)
		electortest.Advance(3 * time.Second)
		if rows, _ := v.page(t); len(rows) != 500 {
			t.Errorf("%d rows", len(rows))
		}
	})
}

// Without a viewer nothing is read.
func TestConsoleRestsWithoutViewers(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		counter := r.Client("counter")
		commands := func() (n int) {
			info := counter.Info(t.Context(), "stats").Val()
			_, count, _ := strings.Cut(info, "total_commands_processed:")
			_, _ = fmt.Sscan(count, &n)
			return n
		}
		_, leave := viewed(t, r)
		before := commands()
		electortest.Advance(10 * time.Second)
		if n := commands() - before; n < 10 {
			t.Errorf("%d commands in 10 s with a viewer", n)
		}
		leave()
		electortest.Advance(10 * time.Second)
		before = commands()
		electortest.Advance(time.Minute)
		if n := commands() - before; n != 1 {
			t.Errorf("%d commands in a minute without a viewer", n)
		}
	})
}

// A group is one row, with its members; it stays one when they are gone.
func TestConsoleShowsGroups(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		runMember(t, r.Quorum("a"), shard.Config{Group: "g", Shards: 4, ID: "a"}, nil)
		electortest.Advance(30 * time.Second)
		v, _ := viewed(t, r)
		electortest.Advance(5 * time.Second)
		rows, _ := v.page(t)
		g := rows["g#*"]
		if len(rows) != 1 || g.State != "led" || g.Leader != "4/4 owned" || g.Able != "1/1" || len(g.Candidates) != 1 || g.Candidates[0].Role != "owns 0-3; assigns" {
			t.Errorf("%+v", rows)
		}
		r.CutOff("a")
		electortest.Advance(time.Minute)
		if rows, _ = v.page(t); rows["g#*"].State != "vacant" {
			t.Errorf("%+v", rows)
		}
	})
}
