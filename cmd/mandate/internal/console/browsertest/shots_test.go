package browsertest

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// The page can be pictured in all of its looks. Those of the documents come from a
// console that runs (mandate console):
// MANDATE_SHOTS_OF=http://127.0.0.1:7481/#demo MANDATE_SHOTS=DIR.
func TestChromiumPictures(t *testing.T) {
	b := startBrowser(t)
	url, dir := os.Getenv("MANDATE_SHOTS_OF"), os.Getenv("MANDATE_SHOTS")
	// The moment of the picture; in the story, when one is cut off.
	shown := `document.querySelector("table.candidates .bad")?.textContent === "unresponsive" && document.querySelectorAll(".term").length > 6`
	if url == "" || dir == "" {
		s := startSite(t)
		s.redis.Lead(s.candidate("orders", "a"))
		url, dir, shown = s.url+"#orders", t.TempDir(), leaderIs("a")
	}
	for _, p := range []struct {
		name, scheme  string
		width, height int64
	}{{"console", "light", 1100, 960}, {"console-dark", "dark", 1100, 960}, {"console-phone", "light", 375, 760}} {
		b.look(p.width, p.height, p.scheme)
		b.do(chromedp.Navigate(url))
		b.until(shown)
		// On a busy machine the picture would be that of an older frame.
		if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](
			`new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(true))))`, chromedp.EvalAwaitPromise)); err != nil {
			t.Fatal(err)
		}
		shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if size, err := png.DecodeConfig(bytes.NewReader(shot)); err != nil || int64(size.Width) != p.width || int64(size.Height) != p.height {
			t.Errorf("%s: a picture of %d x %d, %v", p.name, size.Width, size.Height, err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.name+".png"), shot, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
