package browsertest

import (
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console/consoletest"
	"github.com/mandate-dev/mandate/elector/shard"
)

// A group is one line, which opens to a map with a cell for each shard; a cell leads to all
// that is known of its shard, with the mouse and without.
func TestChromiumGroup(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	for _, id := range []string{"a", "b"} {
		consoletest.Member(t, s.redis, "invoices", id, 48)
	}
	b.look(1200, 900, "light")
	b.do(chromedp.Navigate(s.url))
	b.until(`document.querySelector(".group.shards .item .cell.lease")?.textContent === "48/48" && document.querySelectorAll(".item").length === 1`)
	b.until(`document.querySelector("#summary").textContent === "1 group"`)
	eval[bool](b, `(document.querySelector(".group.shards .toggle").click(), true)`)
	b.until(`document.querySelectorAll(".map > span").length === 48 && location.hash === "#invoices"`)
	cells := func(content string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".map > span")].filter((e) => e.textContent === %q).length`, content)
	}
	b.until(cells("A") + ` === 24 && ` + cells("B") + ` === 24`)
	b.until(`[...document.querySelectorAll("table.members tbody tr")].map((r) => r.querySelectorAll("td")[1].textContent).join() === "24,24"`)

	// The keyboard moves over the map, and tells what it finds: the token, too.
	b.do(chromedp.Focus(".map"))
	b.press(kb.ArrowRight + kb.ArrowRight + kb.ArrowRight)
	b.until(`/^shard 3: owned by [ab] \([AB]\), token \d+, for /.test(document.querySelector(".tell").textContent)`)
	b.until(`document.querySelector(".map").getAttribute("aria-activedescendant") === document.querySelector(".map .at").id && document.querySelector(".map .at").getAttribute("aria-label").startsWith("owned by")`)
	b.press(kb.Enter)
	b.until(`location.hash === "#invoices,invoices%2F3" && document.querySelector(".shard .card h2")?.textContent === "invoices/3"`)
	b.until(`document.querySelector(".shard .fact.leader .id")?.textContent && document.querySelector('.map [aria-selected="true"]').dataset.n === "3"`)
	b.shoot(os.Getenv("MANDATE_SHOT_GROUP"))

	// Another one takes its place, and the actions are those of an election.
	eval[bool](b, `(document.querySelector('.map [data-n="7"]').click(), true)`)
	b.until(`document.querySelectorAll(".shard .card").length === 1 && document.querySelector(".shard .card h2").textContent === "invoices/7"`)
	b.until(`[...document.querySelectorAll(".shard .actions button")].filter((e) => !e.hidden && !e.disabled).map((e) => e.textContent).join() === "resign,pause"`)

	// What has no owner has a sign of its own, and another one when that has lasted.
	const unowned = `[...document.querySelectorAll('.map .none')].filter((e) => "×!".includes(e.textContent)).length`
	s.redis.CutOff("b")
	b.until(unowned + ` === 24 && document.querySelector(".group.unowned .badge")?.textContent.startsWith("24 unowned since") && document.title.startsWith("(24)")`)
	b.until(`document.querySelector(".group-card .condition").textContent.startsWith("24 without an owner since")`)
	b.until(cells("A") + ` === 48 && ` + unowned + ` === 0`)
	b.look(390, 844, "dark")
	if w := eval[int](b, "document.documentElement.scrollWidth"); w > 390 {
		t.Errorf("a group makes the page %d px wide on a phone", w)
	}
	for _, faint := range contrasts(b) {
		t.Error(faint)
	}
	if got := b.complaints(); got != "" {
		t.Errorf("the browser complains:\n%s", got)
	}
}

// 200 elections that are well fit a screen of lines, and one with a problem stands above them.
func TestChromiumManyElections(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	for i := range 60 {
		s.candidate(fmt.Sprintf("orders-%d", i), "a")
	}
	rdb := s.redis.Client("operator")
	rdb.Set(t.Context(), "mandate:{blocked}:fence", "7", 0)
	rdb.Set(t.Context(), "mandate:{blocked}:lock", "job", 0)
	b.look(1200, 900, "light")
	b.do(chromedp.Navigate(s.url))
	b.until(`document.querySelectorAll(".group.led .item").length === 60 && document.querySelector(".group.led .dense")`)
	b.until(`[...document.querySelectorAll(".group.led .leader .id")].every((e) => e.textContent === "a")`)
	lines := `new Set([...document.querySelectorAll(".group.led .item")].map((e) => e.getBoundingClientRect().top)).size`
	if n := eval[int](b, lines); n > 10 {
		t.Errorf("60 elections are %d lines", n)
	}
	if h := eval[float64](b, `document.querySelector(".group.led .item").getBoundingClientRect().height`); h > 22 {
		t.Errorf("a line is %v px high", h)
	}
	eval[bool](b, `(document.querySelector(".group.led .toggle").click(), true)`)
	b.until(leaderIs("a") + ` && document.querySelector(".group.led .item.open").getBoundingClientRect().width > 1000`)

	// On a phone their number stands there, and all of them on request.
	b.look(390, 844, "light")
	b.do(chromedp.Navigate("about:blank"))
	b.do(chromedp.Navigate(s.url))
	b.until(`document.querySelector(".group.led .count")?.textContent === "60" && document.querySelector(".group.led .rows").hidden`)
	b.do(chromedp.Click(".led .fold"))
	b.until(`!document.querySelector(".group.led .rows").hidden && document.querySelectorAll(".group.led .item").length === 60`)
	if w := eval[int](b, "document.documentElement.scrollWidth"); w > 390 {
		t.Errorf("the page is %d px wide on a phone", w)
	}
}

// Names that begin alike stay distinguishable where many stand in a line: the end of each is
// visible, whatever is cut.
func TestChromiumLongNames(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	for i := range 30 {
		s.candidate(fmt.Sprintf("billing-invoice-exporter-eu-west-%02d", i), "exporter-7d9f8c-x2k4p")
	}
	b.look(1200, 900, "light")
	b.do(chromedp.Navigate(s.url))
	b.until(`[...document.querySelectorAll(".group.led .dense .leader .id")].filter((e) => e.textContent).length === 30`)
	if !b.is(`[...document.querySelectorAll(".group.led .start")].filter((e) => e.scrollWidth > e.clientWidth).length === 30`) {
		t.Error("not all names are cut, so this tests nothing")
	}
	cut := `[...document.querySelectorAll(".group.led .name")].filter((e) => {
		const end = e.lastElementChild.getBoundingClientRect(), cell = e.closest(".cell").getBoundingClientRect();
		return end.right > cell.right + 0.5 || e.lastElementChild.textContent !== e.textContent.slice(-9);
	}).map((e) => e.textContent).join()`
	if names := eval[string](b, cut); names != "" {
		t.Errorf("the ends of these names are cut: %s", names)
	}

	// Seven stand in a line of 21 px: so 200 of them, with problems above, fit 900 px.
	b.look(1440, 900, "light")
	if n := eval[int](b, `new Set([...document.querySelectorAll(".group.led .item")].map((e) => e.getBoundingClientRect().top)).size`); n > 5 {
		t.Errorf("30 elections are %d lines at 1440 px", n)
	}
}
