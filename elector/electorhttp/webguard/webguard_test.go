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

// Log lines tell from where, not the token, and are not more than a few.
func TestWrongTokensAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "not-the-token-but-nearly"
		var log bytes.Buffer
		b := NewBearer("0123456789abcdef0123", slog.New(slog.NewTextHandler(&log, nil)))
		try := func(from, auth string) {
			r := httptest.NewRequest(http.MethodPost, "/resign", http.NoBody)
			r.RemoteAddr = from
			r.Header.Set("Authorization", auth)
			b.Check(httptest.NewRecorder(), r)
		}
		try("192.0.2.1:5", "")
		if log.Len() > 0 {
			t.Errorf("a request without a token was logged: %s", &log)
		}
		try("192.0.2.1:5", "Bearer "+secret)
		if s := log.String(); !strings.Contains(s, "from=192.0.2.1:5") || !strings.Contains(s, "path=/resign") || strings.Contains(s, secret) {
			t.Errorf("%s", s)
		}
		for n := range 200 {
			try(fmt.Sprintf("10.0.0.%d:5", n), "Bearer "+secret)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d lines", n)
		}
		time.Sleep(2 * time.Second)
		try("192.0.2.77:5", "Bearer "+secret)
		if s := log.String(); !strings.Contains(s, "not_logged=200") {
			t.Errorf("the next line does not tell how many were left out:\n%s", s)
		}
	})
}
