package browsertest

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console/consoletest"
	"github.com/mandate-dev/mandate/elector"
)

// During a deploy the versions stand on the page; who refuses to lead because it is older; and that
// an operator lets older versions lead, as long as it is so.
func TestChromiumVersions(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	guarded := func(version string) func(*elector.Config) {
		return func(c *elector.Config) { c.Version, c.NoDowngrade = version, true }
	}
	s.redis.Lead(consoletest.CandidateOn(t, s.redis.Quorum("new"), "orders", "new", guarded("v1.5.0")))
	consoletest.CandidateOn(t, s.redis.Quorum("old"), "orders", "old", guarded("v1.4.2"))
	b.look(1200, 900, "light")
	b.do(chromedp.Navigate(s.url + "#orders"))
	b.until(`document.querySelector(".fact.version dd")?.textContent === "v1.5.02 versions"`)
	b.until(`document.querySelector("table.candidates .warn.sub")?.textContent === "v1.4.2, differs"`)
	b.until(`document.querySelector("table.candidates").textContent.includes("outdated")`)
	b.until(`document.querySelector("table.candidates td.detail")?.textContent.includes("v1.5.0 has led, this candidate is v1.4.2")`)
	b.until(`document.querySelector(".item .badge").hidden`)
	orders, err := s.redis.Quorum("operator").Election("orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := orders.As("ann").AllowOlder(t.Context(), "v1.4.0", "v1.5.0 loses orders"); err != nil {
		t.Fatal(err)
	}
	b.until(`document.querySelector(".condition").textContent.includes("Versions older than v1.5.0 may lead again from v1.4.0 on (by ann: v1.5.0 loses orders).")`)
	b.until(`document.querySelector(".item .badge").textContent === "older allowed" && document.querySelector(".item .badge").classList.contains("warn")`)
	b.until(`document.querySelector(".card .badge").textContent === "older allowed"`)
	b.shoot(os.Getenv("MANDATE_SHOT_VERSIONS"))
	b.look(390, 844, "light")
	b.until(`document.documentElement.scrollWidth <= 390`)
	if file := os.Getenv("MANDATE_SHOT_VERSIONS"); file != "" {
		b.shoot(file + ".phone.png")
	}
	if got := b.complaints(); got != "" {
		t.Errorf("the browser complains:\n%s", got)
	}
}

// When only older candidates are left, the page says why none of them leads, and what to do.
func TestChromiumNoneLeadsOfOlderVersion(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	s.redis.Client("operator").Set(t.Context(), "mandate:{orders}:version", "v1.5.0", 0)
	consoletest.CandidateOn(t, s.redis.Quorum("old"), "orders", "old", func(c *elector.Config) { c.Version, c.NoDowngrade = "v1.4.2", true })
	b.look(1200, 900, "light")
	b.do(chromedp.Navigate(s.url + "#orders"))
	b.until(`document.querySelector(".condition")?.textContent.includes("Every candidate is older than v1.5.0, which has led. Start a newer one, or use mandate allow-older.")`)
	b.shoot(os.Getenv("MANDATE_SHOT_OLDER"))
	if got := b.complaints(); got != "" {
		t.Errorf("the browser complains:\n%s", got)
	}
}
