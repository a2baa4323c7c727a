package electorhttp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// Clients are sent to the address in /leader: once the leader has another one, each
// candidate must name it, also to a client of /events that begins only then.
func TestLeaderNamesANewAddress(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a, ha := s.start("a", electorhttp.Config{})
		until(t, "a leads", 3*lease, a.IsLeader)
		_, hb := s.start("b", electorhttp.Config{})
		address := func(h http.Handler) string { return ask(h, "GET", "/leader").Header().Get("Mandate-Address") }
		until(t, "b knows a", lease, func() bool { return address(hb) == "http://a:80" })

		if err := a.SetAdvertise("http://a:8080"); err != nil {
			t.Fatal(err)
		}
		if got := address(ha); got != "http://a:8080" {
			t.Errorf("a names itself at %q", got)
		}
		until(t, "b names the new address", lease/4+time.Second, func() bool { return address(hb) == "http://a:8080" })

		events, _ := listen(t, hb, "")
		if got := next(t, events, elector.EventElected, "a"); got.event.Advertise != "http://a:8080" {
			t.Errorf("a new client of /events learns %+v", got.event)
		}
		if err := a.SetAdvertise("http://a:9090"); err != nil {
			t.Fatal(err)
		}
		if got := next(t, events, elector.EventAddress, "a"); got.event.Advertise != "http://a:9090" {
			t.Errorf("a client of /events learns %+v", got.event)
		}
	})
}
