//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

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
func TestConsoleInABrowser(t *testing.T) {
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
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var found []string
	select {
	case got := <-missing:
		if err := json.Unmarshal(got, &found); err != nil {
			t.Fatal(err)
		}
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
	f := &feed{quorum: openQuorum(t, urls...), page: page}
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
