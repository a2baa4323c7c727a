package browsertest

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// focus is what has the focus: its tag and its accessible text.
func (b *browser) focus() string {
	b.t.Helper()
	return eval[string](b, `((e) => e.tagName + " " + (e.id || e.textContent.trim()))(document.activeElement)`)
}

func (b *browser) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// An operator without a mouse hands the leadership over; and every control has a
// name and a ring where the focus is.
func TestChromiumKeyboard(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	a, other := s.candidate("orders", "a"), s.candidate("orders", "b")
	s.redis.Lead(a)
	b.do(chromedp.Navigate(s.url + "#orders"))
	b.until(leaderIs("a"))
	b.until(`[...document.querySelectorAll(".actions button")].filter((e) => !e.disabled && !e.hidden).length === 3`)

	var met []string
	for range 8 {
		b.press(kb.Tab)
		met = append(met, b.focus())
		if !b.is(`getComputedStyle(document.activeElement).outlineStyle === "solid" || document.activeElement.className === "skip"`) {
			t.Errorf("no ring around %s", b.focus())
		}
	}
	want := "A Skip to the elections, BUTTON view-elections, BUTTON view-hosts, SELECT zone, BUTTON orders, BUTTON resign, BUTTON transfer, BUTTON pause"
	if got := strings.Join(met, ", "); got != want {
		t.Errorf("the Tab key meets %s, want %s", got, want)
	}
	if nameless := eval[string](b, `[...document.querySelectorAll("button, input, select, [role=meter], [role=img], section, table")]
		.filter((e) => e.getClientRects().length && !(e.textContent.trim() || e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.closest("label")))
		.map((e) => e.outerHTML).join("\n")`); nameless != "" {
		t.Errorf("without a name:\n%s", nameless)
	}

	// Closed and opened; the address says which.
	b.do(chromedp.Focus(".toggle"))
	b.press(kb.Enter)
	b.until(`document.querySelector(".toggle").getAttribute("aria-expanded") === "false" && !document.querySelector(".card") && location.hash === ""`)
	b.press(" ")
	b.until(`document.querySelector(".toggle").getAttribute("aria-expanded") === "true" && location.hash === "#orders"`)
	b.until(`[...document.querySelectorAll(".actions button")].filter((e) => !e.disabled && !e.hidden).length === 3`)

	// Escape closes the dialog, and the focus is where it was.
	b.press(kb.Tab)
	b.press(kb.Tab)
	b.press(kb.Enter)
	b.until(`document.querySelector("#action").open`)
	b.press(kb.Escape)
	b.until(`!document.querySelector("#action").open`)
	if got := b.focus(); got != "BUTTON transfer" {
		t.Errorf("after Escape the focus is on %s", got)
	}

	// A wrong token is said to be so, and asked for again.
	b.press(kb.Enter)
	b.until(`document.querySelector("#action").open && document.activeElement.id === "action-to"`)
	b.press(kb.Tab)
	b.press("not-the-token-at-all" + kb.Enter)
	b.until(`document.querySelector("#action-result").textContent === "the token is wrong" && document.activeElement.id === "action-token"`)
	if !a.IsLeader() {
		t.Error("a wrong token made the leader step down")
	}
	b.press(token + kb.Enter)
	b.until(`document.querySelector("#action-result").textContent.startsWith("b leads, token")`)
	if !other.IsLeader() {
		t.Error("the page says that b leads, and it doesn't")
	}
	b.press(kb.Enter) // the focus is on Close
	b.until(`!document.querySelector("#action").open`)
	b.until(leaderIs("b"))

	// The token was asked for once.
	b.do(chromedp.Focus(".actions button:nth-child(3)"))
	b.press(kb.Enter)
	b.until(`document.querySelector("#action").open && document.querySelector("#action-token-row").hidden`)
	b.do(chromedp.Click("#action-go"))
	b.until(`document.querySelector("#action-result").textContent.startsWith("paused")`)
	b.press(kb.Enter)
	b.until(`document.querySelector(".card .badge").textContent === "paused" && document.querySelector(".condition").textContent.startsWith("Paused for")`)
	time.Sleep(time.Second) // of news that must not move what somebody is about to press
	b.until(`[...document.querySelectorAll(".actions button")].filter((e) => !e.hidden).map((e) => e.textContent).join() === "resign,transfer,resume"`)
	if got := b.complaints(); got != "" && !strings.Contains(got, "401") {
		t.Errorf("the browser complains:\n%s", got)
	}
}
