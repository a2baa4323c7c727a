package browsertest

import (
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console/consoletest"
)

// Two leaders at once come from candidates that list other nodes: the page shows it where
// the locks contradict each other, and on each candidate before any of them leads.
func TestChromiumListsThatDiffer(t *testing.T) {
	b := startBrowser(t)
	all := consoletest.StartNodes(t, 4)
	s := serve(t, all[0], all.Quorum(t, "console", 0, 1, 2))
	consoletest.CandidateOn(t, all.Quorum(t, "a", 0, 1, 2), "orders", "a")
	b.look(1100, 900, "light")
	b.do(chromedp.Navigate(s.url + "#orders,batch"))
	b.until(leaderIs("a"))
	b.until(`document.querySelector("#summary").textContent === "1 election"`) // the table is on a stream of its own
	if !b.is(`document.querySelectorAll(".bad").length === 0`) {
		t.Errorf("a fault is shown where there is none: %s", eval[string](b, `document.querySelector(".bad").textContent`))
	}
	consoletest.CandidateOn(t, all.Quorum(t, "b", 0, 1, 3), "orders", "<i>b</i>")
	// Each holds a majority of its own nodes: one of these is on both lists.
	for i, ids := range []string{"AAAAAA,BBBBBB,CCCCCC", "AAAAAA,BBBBBB,CCCCCC", "CCCCCC,DDDDDD,EEEEEE"} {
		rdb, who := all[i].Client("operator"), []string{"left", "left", "<b>right</b>"}[i]
		rdb.Set(t.Context(), "mandate:{batch}:fence", "8", 0)
		rdb.Set(t.Context(), "mandate:{batch}:lock", fmt.Sprintf("%s/INC%d/1 n=3 lease=10000 ids=%s token=8", who, i/2, ids), 0)
	}
	card := func(name, expression string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".card")].some((c) => c.querySelector("h2").textContent === %q && (%s))`, name, expression)
	}
	b.until(card("batch", `c.querySelector(".badge.bad")?.textContent.includes("two may lead")`))
	b.until(card("batch", `c.querySelector(".condition .bad")?.textContent.includes("left and <b>right</b> hold locks here, and vote with different nodes")`))
	b.until(card("batch", `c.querySelector(".condition .bad")?.textContent.includes("Give all candidates the same list of nodes")`))
	b.until(card("orders", `[...c.querySelectorAll("table.candidates td.detail .bad")].filter((d) => d.textContent.includes("votes with other Redis nodes than")).length === 2`))
	b.until(card("orders", `c.querySelector("table.candidates").textContent.includes("than <i>b</i>, so both can lead")`))
	b.shoot(os.Getenv("MANDATE_SHOT_LISTS"))
	if got := b.complaints(); got != "" {
		t.Errorf("the browser complains:\n%s", got)
	}
}
