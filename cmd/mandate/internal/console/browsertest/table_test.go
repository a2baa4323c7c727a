package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console/consoletest"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/health"
)

// The table opens with problems, and with what nobody uses any more folded away; a line of
// it is a link.
func TestChromiumTable(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	s.redis.Lead(s.candidate("orders-2", "a"))
	s.redis.Lead(s.candidate("orders-10", "b"))
	s.redis.Lead(s.candidate("paused", "c"))
	s.redis.Lead(s.candidate("half", "d"))
	consoletest.CandidateOn(t, s.redis.Quorum("e"), "half", "e", func(cfg *elector.Config) { // nobody could take over
		cfg.Probe = health.Func(func(context.Context) error { return errors.New("HTTP 503") })
	})
	rdb := s.redis.Client("operator")
	rdb.Set(t.Context(), "mandate:{paused}:pause", "<i>migration</i>", 0)
	rdb.Set(t.Context(), "mandate:{blocked}:fence", "7", 0)
	rdb.Set(t.Context(), "mandate:{blocked}:lock", "<b>job</b>", 0)
	for i := range 200 {
		rdb.Set(t.Context(), fmt.Sprintf("mandate:{old-%d}:fence", i), "7", 0)
	}
	b.look(1280, 900, "light")
	b.do(chromedp.Navigate(s.url))
	b.until(`document.querySelectorAll(".group.abandoned .item").length === 200`)
	names := `[...document.querySelectorAll(".group:not([hidden]) .rows:not([hidden]) .toggle")].map((e) => e.textContent).join()`
	b.until(names + ` === "blocked,paused,half,orders-2,orders-10"`)
	b.until(`document.querySelector("#summary").textContent === "5 elections · 1 in conflict · 1 paused · 1 degraded" && document.title === "(1) mandate"`)
	b.until(`document.querySelector(".group.led .leader").textContent === "a" && document.querySelector(".group.led .candidates").textContent === "1/1"`)
	b.until(`document.querySelector(".group.degraded .candidates").textContent === "1/2"`)
	b.until(`document.querySelector(".group.paused .badge").textContent === "paused"`)
	b.until(`document.querySelector("#redis").textContent.startsWith("Redis 1/1")`)

	// 200 of them are rows, not cards.
	b.do(chromedp.Click(".abandoned .fold"))
	b.until(`document.querySelectorAll(".group.abandoned .rows:not([hidden])").length === 1`)
	if h := eval[int](b, "document.documentElement.scrollHeight"); h > 205*24+400 {
		t.Errorf("205 elections are %d px high", h)
	}
	b.do(chromedp.Click(".abandoned .fold"))

	// A filter finds names and leaders, also among the folded ones.
	filter := func(text string) {
		eval[bool](b, fmt.Sprintf(`(() => { const f = document.querySelector("#filter"); f.value = %q; f.dispatchEvent(new Event("input")); return true })()`, text))
	}
	visible := `[...document.querySelectorAll(".item")].filter((e) => e.getClientRects().length).map((e) => e.querySelector(".toggle").textContent).join()`
	filter("OLD-19")
	b.until(visible + ` === "old-19,old-190,old-191,old-192,old-193,old-194,old-195,old-196,old-197,old-198,old-199"`)
	filter("b")
	b.until(visible + ` === "blocked,orders-10"`)
	filter("")

	// The address opens one, and follows what is opened.
	eval[bool](b, `(location.hash = "orders-10", true)`)
	b.until(leaderIs("b"))
	eval[bool](b, `(document.querySelector(".group.paused .toggle").click(), true)`)
	b.until(`location.hash === "#orders-10,paused" && document.querySelectorAll(".card").length === 2`)
	b.until(`[...document.querySelectorAll(".condition")].some((e) => e.textContent.includes("<i>migration</i>"))`)
	b.shoot(os.Getenv("MANDATE_SHOT_TABLE"))
	if got := b.complaints(); got != "" {
		t.Errorf("the browser complains:\n%s", got)
	}
}

// When Redis does not answer, everything stays as it was, in grey, and that is said once.
func TestChromiumFreezes(t *testing.T) {
	b := startBrowser(t)
	r := electortest.Start(t)
	s := serve(t, r, r.Quorum("console"))
	r.Lead(s.candidate("orders", "a"))
	b.do(chromedp.Navigate(s.url + "#orders"))
	b.until(leaderIs("a"))
	b.until(`document.querySelectorAll("table.candidates tbody tr").length === 1 && document.querySelectorAll(".term").length === 1`)
	b.until(`document.querySelector("#line").dataset.state === "live"`)
	heal := r.CutOff("console")
	b.until(`/^Redis does not answer; as of \d/.test(document.querySelector("#line").textContent) && document.querySelector("#line").dataset.state === "lost"`)
	b.until(`document.body.classList.contains("stale") && document.querySelector(".card").classList.contains("frozen")`)
	b.until(`document.querySelector("#redis .unhealthy").textContent === "Redis 0/1" && document.title === "(?) orders · mandate"`)
	// Where it stood before, with all that was known.
	b.until(leaderIs("a") + ` && document.querySelector(".group.led .leader").textContent === "a"`)
	b.until(`document.querySelectorAll("table.candidates tbody tr").length === 1 && document.querySelectorAll(".term").length === 1`)
	b.until(`[...document.querySelectorAll(".actions button")].every((e) => e.hidden || e.disabled || !e.getClientRects().length)`)
	// Nothing in the card counts up: its time line ends when it was read.
	b.until(`/^as of \d/.test(document.querySelector(".card .axis").lastChild.textContent)`)
	b.until(`document.querySelector(".card .axis").lastChild.textContent === document.querySelector(".card .badge").textContent`)
	if n := eval[int](b, `document.body.innerText.split("no answer in time").length - 1`); n > 1 {
		t.Errorf("the error stands on the page %d times", n)
	}
	b.shoot(os.Getenv("MANDATE_SHOT_FROZEN"))
	heal()
	b.until(`document.querySelector("#line").dataset.state === "live" && !document.body.classList.contains("stale") && !document.querySelector(".card").classList.contains("frozen")`)
	b.until(`document.querySelector(".card .axis").lastChild.textContent === "now"`)
}
