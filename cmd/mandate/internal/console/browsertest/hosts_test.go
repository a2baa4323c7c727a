package browsertest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/mandate-dev/mandate/elector"
)

// What a host leads, and all of it handed over: with a question, and reported one by one.
func TestChromiumHosts(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	var mine []*elector.Elector
	for _, election := range []string{"mailer", "orders", "reports"} {
		a := s.candidate(election, "worker-a")
		s.redis.Lead(a)
		mine = append(mine, a)
		s.candidate(election, "worker-b")
	}
	alone := s.candidate("alone", "worker-a")
	s.redis.Lead(alone)
	b.look(1100, 800, "light")
	b.do(chromedp.Navigate(s.url))
	b.until(`document.querySelectorAll(".group.led .item").length === 4`)
	b.do(chromedp.Click("#view-hosts"))
	b.until(`location.search === "?view=hosts" && document.querySelector("#elections").hidden`)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	b.until(fmt.Sprintf(`document.querySelector(".host h2")?.textContent === %q && document.querySelector(".host .head .sub").textContent === "leads 4, follows 3"`, host))
	names := func(id, what string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".host .line")].find((l) => l.querySelector(".id").textContent === %q)?.querySelectorAll(".names.%s a") ?? []`, id, what)
	}
	b.until(`[...` + names("worker-a", "leads") + `].map((e) => e.textContent).join() === "alone,mailer,orders,reports"`)
	b.until(`[...` + names("worker-b", "follows") + `].map((e) => e.textContent).join() === "mailer,orders,reports"`)
	b.until(fmt.Sprintf(`document.querySelector(".host .address").textContent.startsWith("process %d  worker-a:80")`, os.Getpid()))
	for _, faint := range contrasts(b) {
		t.Error(faint)
	}
	b.shoot(os.Getenv("MANDATE_SHOT_HOSTS"))

	b.do(chromedp.Click(".host .line .drain"))
	b.until(`document.querySelector("#action").open && document.querySelector("#action-title").textContent === "Hand over all that worker-a leads?"`)
	b.until(`document.querySelector("#action-what").textContent.startsWith("4 elections: alone, mailer, orders, reports. ")`)
	b.press(token + kb.Enter)
	b.until(`document.querySelector("#action-result").textContent === "3 handed over, 1 not"`)
	lines := eval[string](b, `[...document.querySelectorAll("#action-list li")].map((e) => e.className + " " + e.textContent).sort().join("\n")`)
	if n := strings.Count(lines, "ok "); n != 3 || !strings.Contains(lines, "bad alone: there is no other candidate that could lead") || !strings.Contains(lines, "ok orders: worker-b leads, token ") {
		t.Errorf("one by one:\n%s", lines)
	}
	b.shoot(os.Getenv("MANDATE_SHOT_DRAIN"))
	for _, a := range mine {
		if a.IsLeader() {
			t.Error("the page reports a handover, and it still leads")
		}
	}
	b.press(kb.Escape)
	b.until(`!document.querySelector("#action").open`)
	b.until(`[...` + names("worker-b", "leads") + `].map((e) => e.textContent).join() === "mailer,orders,reports"`)

	// A name leads to the election; the address to this view.
	b.look(375, 700, "dark")
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(s.url+"?view=hosts"))
	b.until(`document.querySelectorAll(".host .line").length === 2 && document.querySelector("#view-hosts").getAttribute("aria-pressed") === "true"`)
	if w := eval[int](b, "document.documentElement.scrollWidth"); w > 375 {
		t.Errorf("the page is %d px wide on a phone", w)
	}
	eval[bool](b, `([...`+names("worker-b", "leads")+`].find((e) => e.textContent === "orders").click(), true)`)
	b.until(leaderIs("worker-b") + ` && location.hash === "#orders" && location.search === "" && document.querySelector("#hosts").hidden`)
	if got := b.complaints(); got != "" {
		t.Errorf("the browser complains:\n%s", got)
	}
}
