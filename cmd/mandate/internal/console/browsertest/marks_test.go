package browsertest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"
)

// What is wrong with an election as a whole stands on the page: two processes with one
// id, terms that overlap, a lock that no candidate wrote.
func TestChromiumMarks(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	s.redis.Lead(s.candidate("orders", "a"))
	s.candidate("orders", "twin")
	s.candidate("orders", "twin")
	rdb := s.redis.Client("operator")
	ctx := t.Context()
	rdb.Set(ctx, "mandate:{batch}:fence", "8", 0)
	rdb.Set(ctx, "mandate:{batch}:lock", "<b>job 7</b>", 0)
	began := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	for i, event := range []string{
		`{"v":1,"kind":"elected","election":"batch","candidate":"x","incarnation":"X","token":7,"time":"2026-11-21T07:00:00Z"}`,
		`{"v":1,"kind":"elected","election":"batch","candidate":"y","incarnation":"Y","token":8,"time":"2026-11-21T07:00:00Z"}`,
		`{"v":1,"kind":"released","election":"batch","candidate":"x","incarnation":"X","token":7,"time":"2026-11-21T07:01:00Z","held_ms":60000,"reason":"resigned"}`,
		`{"v":1,"kind":"released","election":"batch","candidate":"y","incarnation":"Y","token":8,"time":"2026-11-21T07:01:00Z","held_ms":60000,"reason":"resigned"}`,
	} {
		at := began.Add(time.Duration(i/2) * time.Minute) // the node's clock went on between them
		rdb.XAdd(ctx, &redis.XAddArgs{Stream: "mandate:{batch}:history", ID: fmt.Sprintf("%d-%d", at.UnixMilli(), i), Values: []any{"event", event}})
	}
	b.look(1100, 900, "light")
	b.do(chromedp.Navigate(s.url + "#orders,batch"))
	card := func(name, expression string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".card")].some((c) => c.querySelector("h2").textContent === %q && (%s))`, name, expression)
	}
	b.until(card("batch", `c.querySelector(".badge").textContent.includes("blocked")`))
	b.until(card("batch", `c.querySelector(".fact.leader .id") === null && c.querySelector(".condition").textContent.includes("No candidate can lead")`))
	b.until(card("batch", `c.querySelector(".condition").textContent.includes("<b>job 7</b>")`))
	b.until(card("batch", `c.querySelector("table.terms").textContent.includes("led at the same time as token")`))
	b.until(card("orders", `[...c.querySelectorAll("table.candidates td.detail")].filter((d) => d.textContent.includes("the same id")).length === 2`))
	// As red as every other fault.
	b.until(card("orders", `[...c.querySelectorAll("table.candidates td.detail .bad")].filter((d) => d.textContent.includes("the same id")).length === 2`))
	b.shoot(os.Getenv("MANDATE_SHOT_MARKS"))
	if got := b.complaints(); got != "" {
		t.Errorf("the browser complains:\n%s", got)
	}
}

// Of a term whose end was not reported it is known how long it lasted at most, and how long there
// was no leader.
func TestChromiumBoundsOfVanishedTerms(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	rdb := s.redis.Client("x")
	rdb.Set(t.Context(), "mandate:{orders}:fence", "7", 0)
	rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "mandate:{orders}:history", Values: []any{"event", fmt.Sprintf(
		`{"v":1,"kind":"elected","election":"orders","candidate":"gone","incarnation":"X","token":7,"time":%q}`, time.Now().Add(-time.Hour).Format(time.RFC3339))}})
	s.redis.Lead(s.candidate("orders", "a"))
	b.do(chromedp.Navigate(s.url + "#orders"))
	b.until(leaderIs("a"))
	b.until(`/gone[^]*<= 1h 00m[^]*<= 1h 00m[^]*vanished/.test(document.querySelector("table.terms").innerText)`)
}
