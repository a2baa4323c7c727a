package console_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// The pictures of the documents, taken from a console that runs (mandate demo
// --console): MANDATE_SHOTS_OF=http://127.0.0.1:7481 MANDATE_SHOTS=DIR.
func TestChromiumPictures(t *testing.T) {
	url, dir := os.Getenv("MANDATE_SHOTS_OF"), os.Getenv("MANDATE_SHOTS")
	if url == "" || dir == "" {
		t.Skip("takes no pictures: MANDATE_SHOTS_OF and MANDATE_SHOTS are not set")
	}
	b := startBrowser(t)
	for _, p := range []struct {
		name, scheme  string
		width, height int64
	}{{"console", "light", 1100, 760}, {"console-dark", "dark", 1100, 760}, {"console-phone", "light", 375, 760}} {
		b.look(p.width, p.height, p.scheme)
		b.do(chromedp.Navigate(url))
		// The one that is cut off in the story.
		b.until(`document.querySelector("table.candidates .bad")?.textContent === "silent" && document.querySelectorAll(".term").length > 6`)
		// On a busy machine the picture would be that of an older frame.
		if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](
			`new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(true))))`, chromedp.EvalAwaitPromise)); err != nil {
			t.Fatal(err)
		}
		png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.name+".png"), png, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
