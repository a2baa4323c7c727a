package browsertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/internal/servertest"
)

// waitLimit is how long the tests wait for what a page shall show: far more than it
// takes, because these machines are small and busy.
const waitLimit = 60 * time.Second

// browser is a tab of a headless Chromium, and what its console complained of.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	alloc, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(servertest.NeedProgram(t, "apt-get install chromium", "chromium", "chromium-browser", "google-chrome")),
		chromedp.NoSandbox, // it is run as root in CI, and loads nothing but our page
		chromedp.UserDataDir(t.TempDir()))...)
	ctx, leave := chromedp.NewContext(alloc)
	ctx, cancel := context.WithTimeout(ctx, 3*waitLimit)
	b := &browser{t: t, ctx: ctx}
	b.do(chromedp.Navigate("about:blank"))
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.faults = append(b.faults, m.String())
			b.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		cancel()
		leave()
		stop()
		<-listened
	})
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// look prepares how the page is seen.
func (b *browser) look(width, height int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	}); err != nil {
		b.t.Fatal(err)
	}
}

// until waits for an expression to be true on the page.
func (b *browser) until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(waitLimit); ; time.Sleep(50 * time.Millisecond) {
		if b.is(expression) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("never true on the page: %s\n%s\nconsole: %s", expression, eval[string](b, "document.body.innerText"), b.complaints())
		}
	}
}

func (b *browser) is(expression string) bool {
	b.t.Helper()
	return eval[bool](b, "Boolean("+expression+")")
}

func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return got
}

// shoot keeps a picture of the page in the file, for a person to look at; "": nobody asked
// for one.
func (b *browser) shoot(file string) {
	b.t.Helper()
	if file == "" {
		return
	}
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(file, shot, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) complaints() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.faults, "\n")
}

func leaderIs(id string) string {
	return fmt.Sprintf(`document.querySelector(".fact.leader .id")?.textContent === %q`, id)
}

// The leader is shown, and another one without a reload; nothing on the page
// breaks its own policy.
func TestChromiumShowsTheLeader(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	a := s.candidate("orders", "a")
	s.redis.Lead(a)
	s.candidate("orders", "b")
	b.do(chromedp.Navigate(s.url + "#orders"))
	b.until(leaderIs("a"))
	b.until(`document.querySelector("#line").textContent === "live"`)
	b.until(`document.querySelectorAll("table.candidates tbody tr").length === 2`)
	b.until(`Number(document.querySelector("[role=meter]").getAttribute("aria-valuenow")) > 0`)
	eval[bool](b, `window.notReloaded = true`)
	if err := a.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(leaderIs("b") + ` && window.notReloaded`)
	b.until(`document.querySelector("table.terms").innerText.includes("resigned")`)
	b.until(`document.querySelector("#news").textContent === "orders: b leads"`)
	if got := b.complaints(); got != "" {
		t.Errorf("the browser complains:\n%s", got)
	}
	s.stop()
	b.until(`document.querySelector("#line").dataset.state === "lost" && document.body.classList.contains("stale")`)
}

// What comes from Redis is text, whatever it looks like.
func TestChromiumHostileText(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	const evil = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`
	rdb := s.redis.Client("evil")
	ctx := t.Context()
	rdb.Set(ctx, "mandate:{<b>e</b>}:fence", "8", 0)
	rdb.Set(ctx, "mandate:{<b>e</b>}:pause", evil, 0)
	rdb.XAdd(ctx, &redis.XAddArgs{Stream: "mandate:{<b>e</b>}:history", Values: []any{"event", fmt.Sprintf(
		`{"v":1,"kind":"elected","election":"<b>e</b>","candidate":%q,"token":7,"time":"2026-11-21T07:00:00Z"}`, evil)}})
	rdb.XAdd(ctx, &redis.XAddArgs{Stream: "mandate:{<b>e</b>}:history", Values: []any{"event", fmt.Sprintf(
		`{"v":1,"kind":"released","election":"<b>e</b>","candidate":%q,"reason":%[1]q,"detail":%[1]q,"token":7,"time":"2026-11-21T07:00:05Z"}`, evil)}})
	b.look(375, 700, "light")
	b.do(chromedp.Navigate(s.url + "#%3Cb%3Ee%3C%2Fb%3E"))
	b.until(`document.querySelector(".card h2 bdi")?.textContent === "<b>e</b>"`)
	b.until(fmt.Sprintf(`document.querySelector("table.terms td.end")?.textContent.includes(%q)`, evil))
	b.until(fmt.Sprintf(`document.querySelector(".condition").textContent.includes(%q)`, evil))
	b.until(fmt.Sprintf(`document.querySelector(".term")?.title.includes(%q)`, evil))
	if !b.is(`window.hacked === undefined && document.querySelectorAll("main img, main script, main b").length === 0`) {
		t.Errorf("foreign text became markup: %s", eval[string](b, "document.querySelector('main').innerHTML"))
	}
	if w := eval[int](b, "document.documentElement.scrollWidth"); w > 375 {
		t.Errorf("long text makes the page %d px wide on a phone", w)
	}
	// The page's own policy would stop what the code let through.
	if !b.is(`(() => { try { document.body.innerHTML = "<i>x</i>"; return false } catch { return true } })()`) {
		t.Error("the page accepts strings as markup")
	}
}

// It fits a phone, and follows the choice of light and dark.
func TestChromiumPhoneLightAndDark(t *testing.T) {
	b := startBrowser(t)
	s := startSite(t)
	const name = "an_election_whose_name_is_as_long_as_names_of_elections_can_get"
	long := strings.Repeat("candidate_that_no_line_breaks_", 3) + "5f7c9d8b6"
	s.redis.Lead(s.candidate(name, long))
	s.candidate(name, "b")
	brightness := func() int {
		return eval[int](b, `getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number).reduce((a, c) => a + c)`)
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{320, 375, 768, 1280} {
			b.look(width, 700, scheme)
			b.do(chromedp.Navigate(s.url + "#" + name))
			b.until(leaderIs(long))
			b.until(`document.querySelectorAll("table.candidates tbody tr").length === 2 && document.querySelector("table.terms tbody tr")`)
			if w := eval[int64](b, "document.documentElement.scrollWidth"); w > width {
				t.Errorf("%s at %d px: the page is %d px wide", scheme, width, w)
			}
			// Beyond the edge of the card is out of sight.
			if out := eval[string](b, `[...document.querySelectorAll(".card *:not(.sr)")].filter((e) => e.getClientRects().length && !e.closest(".track, thead")
				&& e.getBoundingClientRect().right > document.querySelector(".card").getBoundingClientRect().right).map((e) => e.tagName + "." + e.className).join(" ")`); out != "" {
				t.Errorf("%s at %d px: beyond the edge: %s", scheme, width, out)
			}
			if width == 375 && eval[int](b, `Math.min(...[...document.querySelectorAll("button")].filter((e) => e.getClientRects().length).map((e) => e.getBoundingClientRect().height))`) < 28 {
				t.Error("a button is too small for a finger")
			}
		}
		if n := brightness(); (scheme == "light") != (n > 3*128) {
			t.Errorf("%s: the ground's brightness is %d of 765", scheme, n)
		}
		for _, faint := range contrasts(b) {
			t.Errorf("%s: %s", scheme, faint)
		}
	}
}

// contrasts are the texts that are too faint for WCAG's AA.
func contrasts(b *browser) []string {
	return eval[[]string](b, `(() => {
		const lum = (c) => { const [r, g, b] = c.match(/[\d.]+/g).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 }); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
		const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)$/.test(c)) return c } return "rgb(255,255,255)" };
		const all = [];
		for (const e of document.querySelectorAll("body *")) {
			if (!e.getClientRects().length || e.disabled || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
			const [x, y] = [lum(getComputedStyle(e).color), lum(ground(e))];
			const ratio = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
			if (ratio < 4.5) all.push(e.tagName + "." + e.className + " " + e.textContent.slice(0, 20) + ": " + ratio.toFixed(2));
		}
		return all;
	})()`)
}
