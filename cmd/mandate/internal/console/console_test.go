package console_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
)

func TestPage(t *testing.T) {
	c := newConsole(t, console.Config{})
	for path, kind := range map[string]string{
		"/": "text/html", "/console.css": "text/css", "/icon.svg": "image/svg+xml",
		"/console.js": "javascript", "/card.js": "javascript", "/rows.js": "javascript", "/item.js": "javascript", "/shards.js": "javascript", "/map.js": "javascript", "/table.js": "javascript", "/line.js": "javascript", "/timeline.js": "javascript", "/actions.js": "javascript", "/hosts.js": "javascript", "/text.js": "javascript",
	} {
		w := request(c, http.MethodGet, path, "")
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d, %v", path, w.Code, w.Header())
		}
		policy := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: %s is missing in %s", path, want, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
	for _, path := range []string{"/page/console.html", "/nosuch", "/api/", "/../main.go"} {
		if w := request(c, http.MethodGet, path, ""); w.Code == http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// What the files must not hold: requests to elsewhere, and ways for text to
// become markup or code.
func TestPageIsItsOwn(t *testing.T) {
	files, err := filepath.Glob("page/*")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	foreign := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]|innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|\beval\(|new Function|@import|url\(| on[a-z]+="| style="`)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), `xmlns="http://www.w3.org/2000/svg"`, "")
		for _, found := range foreign.FindAllString(text, -1) {
			t.Errorf("%s holds %q", f, found)
		}
	}
}

func TestNamesAndSites(t *testing.T) {
	c := newConsole(t, console.Config{Hosts: []string{"console.example"}})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:7481": 200, "LOCALHOST.:1": 200, "127.0.0.1:7481": 200, "10.1.2.3": 200, "[::1]:7481": 200, "[::1]": 200,
		"console.example": 200, "Console.Example:443": 200,
		"evil.example": 421, "evil.example:7481": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "": 421,
	} {
		if w := request(c, http.MethodGet, "/", "", func(r *http.Request) { r.Host = host }); w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 401, "none": 401, "": 401} {
		operated := newConsole(t, console.Config{Token: token})
		w := request(operated, http.MethodPost, "/api/resign", "{}", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) })
		if w.Code != want {
			t.Errorf("Sec-Fetch-Site %q: %d, want %d", site, w.Code, want)
		}
	}
}

// Who guesses tokens is slowed down; somebody elsewhere is not.
func TestGuessesAreSlowedDown(t *testing.T) {
	c, codes := newConsole(t, console.Config{Quorum: electortest.Start(t).Quorum("console"), Token: token}), map[int]int{}
	for range 200 {
		codes[request(c, http.MethodPost, "/api/resign", `{"election":"e"}`, bearer("another-token-that-is-long")).Code]++
	}
	if codes[401] < 1 || codes[401] > 40 || codes[429] != 200-codes[401] {
		t.Errorf("200 guesses: %v", codes)
	}
	elsewhere := func(r *http.Request) { r.RemoteAddr = "198.51.100.7:1" }
	if w := request(c, http.MethodPost, "/api/resign", `{"election":"e"}`, bearer(token), elsewhere); w.Code != http.StatusNotFound {
		t.Errorf("from elsewhere, with the token: %d", w.Code)
	}
}

func TestConfig(t *testing.T) {
	if _, err := console.New(console.Config{Token: "short"}); err == nil || !strings.Contains(err.Error(), "at least 16") {
		t.Errorf("%v", err)
	}
	q, err := elector.Open("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if _, err := console.New(console.Config{Quorum: q, Elections: []string{"fine", "not fine"}}); err == nil || !strings.Contains(err.Error(), "not fine") {
		t.Errorf("%v", err)
	}
}

func TestActionsAreRefused(t *testing.T) {
	q := electortest.Start(t).Quorum("console")
	without, with := newConsole(t, console.Config{Quorum: q}), newConsole(t, console.Config{Quorum: q, Token: token})
	const good = `{"election":"e"}`
	kind := func(k string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Content-Type", k) }
	}
	for _, action := range []string{"resign", "transfer", "pause", "resume"} {
		path := "/api/" + action
		if w := request(without, http.MethodPost, path, good, bearer(token)); w.Code != http.StatusForbidden {
			t.Errorf("%s, not enabled: %d", action, w.Code)
		}
		if w := request(without, http.MethodPost, path, good, bearer("")); w.Code != http.StatusForbidden {
			t.Errorf("%s, not enabled, empty token: %d", action, w.Code)
		}
		for name, edit := range map[string]func(*http.Request){
			"no token": func(*http.Request) {}, "an empty one": bearer(""), "a wrong one": bearer("another-token-that-is-long"),
			"a part of it": bearer(token[:20]), "more than it": bearer(token + "x"),
			"another scheme": func(r *http.Request) { r.Header.Set("Authorization", "Basic "+token) },
			"in a cookie":    func(r *http.Request) { r.Header.Set("Cookie", "Authorization=Bearer "+token) },
			"in the address": func(r *http.Request) { r.URL.RawQuery = "token=" + token },
		} {
			if w := request(with, http.MethodPost, path, good, edit); w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s, %s: %d", action, name, w.Code)
			}
		}
		for body, want := range map[string]int{
			good: 404, `{"election":"e","more":1}`: 400, `election=e`: 400, ``: 400, `{"election":"` + strings.Repeat("e", 8<<10) + `"}`: 400,
			good + good: 400, good + " x": 400, good + strings.Repeat(" ", 8<<10): 400, good + "\n": 404,
		} {
			if w := request(with, http.MethodPost, path, body, bearer(token)); w.Code != want {
				t.Errorf("%s of %.40q: %d, want %d", action, body, w.Code, want)
			}
		}
		// What a form of another site can send without asking first.
		for _, k := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"} {
			if w := request(with, http.MethodPost, path, good, bearer(token), kind(k)); w.Code != http.StatusUnsupportedMediaType {
				t.Errorf("%s as %q: %d", action, k, w.Code)
			}
		}
		if w := request(with, http.MethodGet, path, "", bearer(token)); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", action, w.Code)
		}
	}
}
