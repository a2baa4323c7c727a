package webguard

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const token = "0123456789abcdef0123"

func TestExpected(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:80": true, "LOCALHOST.:1": true, "127.0.0.1": true, "10.1.2.3:80": true, "[::1]:7480": true, "[::1]": true,
		"mine.example": true, "Mine.Example:443": true, "mine.example.": true,
		"evil.example": false, "evil.example:7480": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "": false, ":80": false,
	} {
		if got := Expected(host, []string{"mine.example"}); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}

func TestCrossSite(t *testing.T) {
	for site, want := range map[string]bool{"": false, "none": false, "same-origin": false, "same-site": true, "cross-site": true, "x": true} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("Sec-Fetch-Site", site)
		if got := CrossSite(r); got != want {
			t.Errorf("%q: %v, want %v", site, got, want)
		}
	}
}

type door struct {
	b   *Bearer
	log bytes.Buffer
}

func newDoor() *door {
	d := &door{}
	d.b = NewBearer(token, slog.New(slog.NewTextHandler(&d.log, nil)))
	return d
}

func (d *door) try(from, auth string) (int, http.Header) {
	r := httptest.NewRequest(http.MethodPost, "/resign", http.NoBody)
	r.RemoteAddr = from
	if auth != "" {
		r.Header.Set("Authorization", auth)
	}
	w := httptest.NewRecorder()
	return d.b.Check(w, r), w.Header()
}

func TestBearer(t *testing.T) {
	for auth, want := range map[string]int{
		"Bearer " + token: 200, "bearer " + token: 200, "": 401, token: 401, "Bearer": 401, "Bearer ": 401, "Bearer " + token + "x": 401,
		"Bearer " + token[1:]: 401, "Basic " + token: 401,
	} {
		code, head := newDoor().try("192.0.2.1:5", auth)
		if code != want || (code == 401) != (head.Get("WWW-Authenticate") != "") {
			t.Errorf("%q: %d, %v", auth, code, head)
		}
	}
}

// A client that guesses gets a few tries, and then one every two seconds, whatever
// it sends; from elsewhere the token works all the time.
func TestGuessersAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		looked := 0
		for i := range 1000 { // 10 s
			code, head := d.try(fmt.Sprintf("192.0.2.1:%d", i), "Bearer guess-of-some-length")
			switch {
			case code == http.StatusUnauthorized:
				looked++
			case code != http.StatusTooManyRequests || head.Get("Retry-After") == "" || head.Get("Retry-After") == "0":
				t.Fatalf("%d, %v", code, head)
			}
			if code, _ := d.try("198.51.100.7:1", "Bearer "+token); code != http.StatusOK {
				t.Fatalf("from elsewhere: %d", code)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if looked < remoteBurst || looked > remoteBurst+10*remoteRate+1 {
			t.Errorf("%d of 1000 guesses in 10 s were looked at", looked)
		}
		d.try("192.0.2.1:5", "Bearer guess-of-some-length")
		if code, _ := d.try("192.0.2.1:5", "Bearer "+token); code != http.StatusTooManyRequests {
			t.Errorf("the right one, among the guesses of its remote: %d", code)
		}
		time.Sleep(10 * time.Second)
		if code, _ := d.try("192.0.2.1:5", "Bearer "+token); code != http.StatusOK {
			t.Errorf("the right one, 10 s after the last guess: %d", code)
		}
	})
}

// Guesses from many remotes are limited in all, and take a bounded memory; a
// remote that has sent no wrong token is let in at its first try.
func TestManyGuessers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		looked := 0
		for range 50 { // 10 s, of 100 remotes
			for n := range 100 {
				if code, _ := d.try(fmt.Sprintf("192.0.2.%d:5", n), "Bearer guess-of-some-length"); code == http.StatusUnauthorized {
					looked++
				}
			}
			if code, _ := d.try("198.51.100.7:1", "Bearer "+token); code != http.StatusOK {
				t.Fatalf("from elsewhere: %d", code)
			}
			time.Sleep(200 * time.Millisecond)
		}
		if most := 100 + totalBurst + 10*totalRate + 1; looked > int(most) {
			t.Errorf("%d guesses in 10 s were looked at, want at most %v", looked, most)
		}
		for n := range maxRemotes + 200 {
			d.try(fmt.Sprintf("10.0.%d.%d:5", n/250, n%250), "Bearer guess-of-some-length")
		}
		if n := len(d.b.remotes); n > maxRemotes {
			t.Errorf("%d remotes are remembered", n)
		}
		if code, _ := d.try("198.51.100.7:1", "Bearer "+token); code != http.StatusOK {
			t.Errorf("from elsewhere: %d", code)
		}
	})
}

// Log lines tell from where, not the token, and are not more than a few.
func TestWrongTokensAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		const secret = "not-the-token-but-nearly"
		d.try("192.0.2.1:5", "")
		if d.log.Len() > 0 {
			t.Errorf("a request without a token was logged: %s", &d.log)
		}
		d.try("192.0.2.1:5", "Bearer "+secret)
		if s := d.log.String(); !strings.Contains(s, "from=192.0.2.1:5") || !strings.Contains(s, "path=/resign") || strings.Contains(s, secret) {
			t.Errorf("%s", s)
		}
		for n := range 200 {
			d.try(fmt.Sprintf("10.0.0.%d:5", n), "Bearer "+secret)
		}
		if n := strings.Count(d.log.String(), "\n"); n > logBurst {
			t.Errorf("%d lines", n)
		}
		time.Sleep(2 * time.Second)
		d.try("192.0.2.77:5", "Bearer "+secret)
		if s := d.log.String(); !strings.Contains(s, fmt.Sprintf("not_logged=%d", 201-logBurst)) {
			t.Errorf("the next line does not tell how many were left out:\n%s", s)
		}
	})
}

func TestRemotes(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:5": "192.0.2.1", "[::ffff:192.0.2.1]:5": "192.0.2.1", "[2001:db8::1]:5": "2001:db8::/64", "[2001:db8::ffff:2]:6": "2001:db8::/64",
		"[fe80::1%eth0]:5": "fe80::/64", "@": "@", "": "", "name:80": "name",
	} {
		if got := remoteOf(&http.Request{RemoteAddr: addr}); got != want {
			t.Errorf("%q: %q, want %q", addr, got, want)
		}
	}
}
