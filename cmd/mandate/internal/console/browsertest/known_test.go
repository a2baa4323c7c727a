package browsertest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // machines without zones

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console/consoletest"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// Regression: opened while Redis is away, the page had a green "live" above an empty table.
func TestChromiumOpensWhileRedisIsAway(t *testing.T) {
	b := startBrowser(t)
	r := electortest.Start(t)
	s := serve(t, r, r.Quorum("console"))
	heal := r.CutOff("console")
	b.do(chromedp.Navigate(s.url))
	// Whatever the page shows until then: never that it is live.
	eval[bool](b, `(window.states = new Set(), new MutationObserver(() => states.add(document.querySelector("#line").dataset.state))
		.observe(document.querySelector("#line"), { attributes: true }), true)`)
	b.until(`document.querySelector("#line").textContent === "Redis does not answer; nothing is known yet"`)
	b.until(`document.body.classList.contains("stale") && document.querySelector("#redis .unhealthy").textContent === "Redis 0/1" && document.title === "(?) mandate"`)
	time.Sleep(3 * time.Second) // what comes later must not change it
	if !b.is(`!states.has("live") && document.querySelector("#line").dataset.state === "lost" && document.querySelector("#none").hidden`) {
		t.Errorf("live without an answer: %s", eval[string](b, `[...states].join()`))
	}
	if !b.is(`document.querySelector(".heads").getClientRects().length === 0`) {
		t.Error("an empty table has a head")
	}
	b.shoot(os.Getenv("MANDATE_SHOT_AWAY"))
	heal()
	b.until(`document.querySelector("#line").textContent === "live" && !document.querySelector("#none").hidden`)
	s.redis.Lead(s.candidate("orders", "a"))
	b.until(`document.querySelector(".group.led .leader")?.textContent === "a"`)
}

// Regression: with one of three nodes, the page counted no candidate as healthy where the
// truth is that none could be called; and it repeated the error in each part of the card.
func TestChromiumMinorityIsNotKnown(t *testing.T) {
	b := startBrowser(t)
	all := consoletest.StartNodes(t, 3)
	s := serve(t, all[0], all.Quorum(t, "console", 0, 1, 2))
	a := consoletest.CandidateOn(t, all.Quorum(t, "a", 0, 1, 2), "orders", "a")
	consoletest.CandidateOn(t, all.Quorum(t, "b", 0, 1, 2), "orders", "b")
	all[0].Lead(a)
	all[1].CutOff("console")
	heal := all[2].CutOff("console")
	b.look(1100, 700, "light")
	b.do(chromedp.Navigate(s.url + "#orders"))
	b.until(`document.querySelector("#line").textContent === "1 of 3 Redis nodes answer, too few; nothing is known yet"`)
	b.until(`document.querySelector(".fact.candidates dd")?.textContent === "not known"`)
	b.until(`document.querySelector(".card .badge").textContent === "not known" && document.querySelector(".group.unknown .badge").textContent === "not known"`)
	if n := eval[int](b, `document.querySelector("main").innerText.split("no majority").length - 1`); n > 0 {
		t.Errorf("the error stands %d times below the nodes", n)
	}
	b.shoot(os.Getenv("MANDATE_SHOT_MINORITY"))
	heal()
	b.until(`document.querySelector("#line").textContent === "live"`)
	b.until(`document.querySelector(".fact.candidates dd").textContent === "2/2 can lead"`)
}

// A candidate that stepped down is not just healthy: it rests, and until when.
func TestChromiumRests(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	a := consoletest.CandidateOn(t, s.redis.Quorum("a"), "orders", "a", func(c *elector.Config) { c.Cooldown = time.Hour })
	s.redis.Lead(a)
	s.candidate("orders", "b")
	if _, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(s.url + "#orders"))
	b.until(leaderIs("a"))
	if err := a.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(leaderIs("b"))
	b.until(`document.querySelector("table.candidates").innerText.includes("rests until") && document.querySelector(".fact.candidates dd").textContent === "1/2 can lead"`)
	b.until(`[...document.querySelectorAll("table.candidates td.health")].map((e) => e.textContent).join() === "ok,rests"`)

	// The zone of times is shown, and can be chosen; the choice is kept.
	until := func(zone string) string {
		at, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`/rests until (\d\d-\d\d )?(%s)/.test(document.querySelector("table.candidates").innerText)`,
			time.Now().Add(time.Hour).In(at).Format("15:")+`\d\d:\d\d|`+time.Now().Add(time.Hour-2*time.Minute).In(at).Format("15:")+`\d\d:\d\d`)
	}
	zone := `document.querySelector("#zone").selectedOptions[0].textContent`
	b.until(zone + ` === "Asia/Kolkata" || ` + zone + ` === "Asia/Calcutta"`)
	b.until(until("Asia/Kolkata"))
	eval[bool](b, `(() => { const z = document.querySelector("#zone"); z.value = "UTC"; z.dispatchEvent(new Event("change")); return true })()`)
	b.until(until("UTC"))
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(s.url+"#orders"))
	b.until(zone + ` === "UTC"`)
}

// What is wrong with an election is never cut off.
func TestChromiumStateIsNotCut(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	rdb := s.redis.Client("operator")
	ctx := t.Context()
	rdb.Set(ctx, "mandate:{orders}:fence", "9", 0)
	rdb.Set(ctx, "mandate:{orders}:pause", "migration", 0)
	for token := 7; token <= 9; token++ {
		for _, kind := range []string{"elected", "released"} {
			rdb.XAdd(ctx, &redis.XAddArgs{Stream: "mandate:{orders}:history", Values: []any{"event", fmt.Sprintf(
				`{"v":1,"kind":%q,"election":"orders","candidate":"x","incarnation":"X","token":%d,"time":%q,"reason":"unhealthy"}`,
				kind, token, time.Now().Add(time.Duration(token-10)*time.Second).Format(time.RFC3339Nano))}})
		}
	}
	for _, width := range []int64{1280, 1100, 768, 375} {
		b.look(width, 500, "light")
		b.do(chromedp.Navigate(s.url))
		b.until(`document.querySelector(".item .badge")?.textContent.startsWith("flapping")`)
		if cut := eval[string](b, `[...document.querySelectorAll(".item .state, .item .last-end, .item .candidates")].filter((e) => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight + 2).map((e) => e.textContent).join()`); cut != "" {
			t.Errorf("at %d px: %s is cut off", width, cut)
		}
	}
	if got := b.complaints(); got != "" && !strings.Contains(got, "favicon") {
		t.Errorf("the browser complains:\n%s", got)
	}
}
