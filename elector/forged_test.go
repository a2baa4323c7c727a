package elector_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Whoever may only publish can make others ask Redis, and no more: these messages are
// plausible, from the right names to tokens that could be.

// forge is an event as a candidate would publish it.
func forge(kind string, candidate, advertise string, token uint64) string {
	b, err := json.Marshal(elector.Event{
		Version: 1, Kind: kind, Election: "orders", Candidate: candidate, Advertise: advertise, Token: token, Time: time.Now(),
	})
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("1 %s %d  %s", kind, token, b)
}

func publish(c *cluster, channel, message string) {
	for _, nd := range c.Nodes {
		nd.Server().Publish("mandate:{orders}:"+channel, message)
	}
}

// never fails when an event names anybody but these candidates, each at its address.
func never(t testing.TB, events <-chan elector.Event, advertised map[string]string) (all []elector.Event) {
	t.Helper()
	for {
		select {
		case ev := <-events:
			if at, known := advertised[ev.Candidate]; ev.Candidate != "" && (!known || at != ev.Advertise) {
				t.Errorf("%s of %q at %q, token %d: Redis never showed it", ev.Kind, ev.Candidate, ev.Advertise, ev.Token)
			}
			all = append(all, ev)
		default:
			return all
		}
	}
}

func advertising(cfg *elector.Config) { cfg.Advertise = cfg.ID + ":80" }

// forged are plausible messages of somebody who may only publish, in a term with this token: from the right names to
// tokens that could be.
var forged = map[string]func(token uint64) (channel, message string){
	"elected":              head("elected %d  {}", anHour),
	"the next one":         head("elected %d  {}", 1),
	"an old one's elected": head("elected %d  {}", 0),
	"elected, by an event": event(elector.EventElected, "evil", "evil:80", anHour),
	"the next, by one":     event(elector.EventElected, "evil", "evil:80", 1),
	"its address":          event(elector.EventElected, "a", "evil:80", 0),
	"its next term":        event(elector.EventElected, "a", "evil:80", 1),
	"released":             head("released %d  {}", anHour),
	"the same term":        head("released %d !ghost {}", 0),
	"an old one":           head("released %d  {}", -1),
	"for a ghost":          head("released %d !ghost {}", anHour),
	"its end":              event(elector.EventReleased, "a", "a:80", 0),
	"the next one's end":   event(elector.EventReleased, "evil", "evil:80", 1),
	"beyond all":           func(uint64) (string, string) { return "events", "1 released 9007199254740991  {}" },
	"paused":               func(uint64) (string, string) { return "ask", `{"v":1,"kind":"paused","election":"orders","note":"n"}` },
	"resumed":              func(uint64) (string, string) { return "ask", `{"v":1,"kind":"resumed","election":"orders","note":"n"}` },
	"garbage":              garbage,
}

// garbage is what no candidate publishes, and what looks like an event only at first sight.
func garbage(token uint64) (channel, message string) {
	all := []string{
		"", "x", "{", "null", "[]", `{"v":1}`, strings.Repeat("x", 1<<20), "\xff\x00", `{"v":1,"kind":"released"}`,
		`{"v":1,"kind":"released","election":"other","token":99999999999999}`,
		`{"v":"one","kind":[],"election":{}}`,
		fmt.Sprintf(`{"v":1,"kind":"released","election":"orders","candidate":"a","token":%d}`, token),
		fmt.Sprintf(`{"v":1,"kind":"released","election":"orders","candidate":"a","token":%d,"next":"%s"}`, token, strings.Repeat("n", 9999)),
		fmt.Sprintf(`{"v":1,"kind":"elected","election":"orders","candidate":"evil","token":%d}`, token+5),
		`{"v":1,"kind":"elected","election":"orders","candidate":"evil","token":9007199254740991}`,
		`{"v":1,"kind":"released","election":"orders","token":9007199254740991}`,
		`{"v":1,"kind":"elected","election":"orders","candidate":"evil","token":18446744073709551615}`,
		"released", "released x", "elected ", "elected -1", "released 18446744073709551615 x", fmt.Sprint("elected ", token+5),
		fmt.Sprint("released ", token), fmt.Sprint("released ", token, " ", strings.Repeat("n ", 9999)),
	}
	head := []string{"", fmt.Sprint("released ", token, "  "), fmt.Sprint("elected ", token+5, "  ")}[rand.IntN(3)]
	return "events", head + all[rand.IntN(len(all))]
}

const anHour = int(time.Hour / time.Millisecond) // of tokens

func head(format string, beyond int) func(uint64) (string, string) {
	return func(token uint64) (string, string) { return "events", fmt.Sprintf("1 "+format, int(token)+beyond) }
}

func event(kind, candidate, advertise string, beyond int) func(uint64) (string, string) {
	return func(token uint64) (string, string) {
		return "events", forge(kind, candidate, advertise, token+uint64(beyond))
	}
}

// Whatever is forged, again and again, from before the first election on: no observer reports what Redis does not show, the
// leader's term does not end, no follower misses its release, or waits longer when the next one has died.
func TestForgedMessages(t *testing.T) {
	names := map[string]string{"a": "a:80", "b0": "b0:80", "b1": "b1:80", "b2": "b2:80"}
	for name, message := range forged {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			var token atomic.Uint64 // of the newest term
			quit, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				for i := 0; ; i++ {
					known, every := token.Load(), shortLease/200
					if known == 0 { // the first one will be the time
						known, every = uint64(time.Now().UnixMilli()), 500*time.Microsecond
					}
					channel, m := message(known)
					for _, nd := range c.Nodes[:1+i%2*2] { // on one node, on all
						nd.Server().Publish("mandate:{orders}:"+channel, m)
					}
					select {
					case <-quit:
						return
					case <-time.After(every):
					}
				}
			}()
			defer func() { close(quit); <-ended }()
			events := watch(t, electionOf(c.Quorum("bystander"), "orders"))
			want(t, events, time.Second, elector.EventVacant, "", 0)
			a, term := leading(c, "a", advertising)
			token.Store(term.Token())
			elected := want(t, events, shortLease, elector.EventElected, "a", term.Token())
			// A failed claim has raised one node's counter.
			must(t, c.Nodes[2].Server().Set(fenceKey, strconv.FormatUint(term.Token()+3, 10)))
			var rest []*candidate
			for i := range 3 {
				rest = append(rest, c.Start(fmt.Sprint("b", i), advertising))
			}
			time.Sleep(shortLease + time.Second)
			if all := never(t, events, names); len(all) > 0 || !term.Valid() {
				t.Errorf("while a leads: %+v, %v", all, term.Err())
			}
			a.Stop()
			began := time.Now()
			b, next := first(t, 2*shortLease, rest...)
			token.Store(next.Token())
			// A claim that a message caused in vain is not repeated for a sixteenth of a lease.
			if gap := next.Since().Sub(began); gap > shortLease/16 {
				t.Errorf("%v without a leader", gap)
			}
			want(t, events, shortLease/8, elector.EventReleased, "a", term.Token())
			if then := want(t, events, shortLease/8, elector.EventElected, b.ID(), next.Token()); then.Advertise != b.ID()+":80" || elected.Advertise != "a:80" {
				t.Errorf("%+v, then %+v", elected, then)
			}
			time.Sleep(shortLease / 2)
			if all := never(t, events, names); len(all) > 0 {
				t.Errorf("while %s leads: %+v", b.ID(), all)
			}
			crash(c, b)
			_, last := first(t, shortLease+shortLease/10, others(rest, b)...)
			token.Store(last.Token())
			time.Sleep(shortLease)
			never(t, events, names)
			for _, x := range rest {
				if lines := x.Log.Lines("msg=\"election "); len(lines) > 0 {
					t.Errorf("%s logged %d lines: %s", x.ID(), len(lines), lines[0])
				}
				if lines := x.Log.Lines("WARN"); len(lines) > 0 && x != b { // which has lost its nodes
					t.Errorf("%s complains: %q", x.ID(), lines)
				}
			}
		})
	}
}

// Regression: nodes could not show a lock for a moment, and a forged report of its holder's
// end was believed just then: the leader was never reported again, for as long as it led.
func TestForgedEndOfALeaderThatStays(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, term := leading(c, "a", advertising)
		events := watch(t, electionOf(c.Quorum("bystander"), "orders"))
		want(t, events, time.Second, elector.EventElected, "a", term.Token())
		time.Sleep(shortLease + time.Second) // a second after a renewal
		lock, err := c.Nodes[0].Server().Get(lockKey)
		must(t, err)
		unlock(c.Nodes[:2])
		publish(c, "events", forge(elector.EventReleased, "a", "a:80", term.Token()))
		time.Sleep(100 * time.Millisecond)
		for _, n := range c.Nodes[:2] {
			_ = n.Server().Set(lockKey, lock)
			n.Server().SetTTL(lockKey, shortLease)
		}
		want(t, events, time.Second, elector.EventReleased, "a", term.Token())
		want(t, events, 3*shortLease, elector.EventElected, "a", term.Token())
		continues(t, term)
		a.Shutdown()
		if end := want(t, events, shortLease, elector.EventReleased, "a", term.Token()); end.Reason != elector.ReasonShutdown {
			t.Errorf("ended: %+v", end)
		}
	})
}

// flood publishes a message on all nodes again and again, for d.
func flood(c *cluster, channel string, every, d time.Duration, message func(i int) string) {
	for i := range int(d / every) {
		for _, nd := range c.Nodes {
			nd.Server().Publish("mandate:{orders}:"+channel, message(i))
		}
		time.Sleep(every)
	}
}

// A true pause, and forged ends of it: nobody believes them, fills the log or claims.
func TestForgedEndsOfAPauseAreNotBelieved(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, b, _ := pair(c, shortLease)
		op := c.Quorum("operator")
		must(t, electionOf(op, "orders").Pause(t.Context(), 0, "migration"))
		a.Shutdown()
		b.Quiet(time.Second)
		began := time.Now()
		flood(c, "ask", 10*time.Millisecond, shortLease, func(i int) string {
			return fmt.Sprintf(`{"v":1,"kind":"resumed","election":"orders","note":"n%d"}`, i)
		})
		if claims, _ := claims(c.Nodes[0], began); claims > 30 {
			t.Errorf("%d claims in a lease of a pause", claims)
		}
		// Its begin, and the reminder that is due after 10 s.
		if lines := b.Log.Lines("msg=\"election "); len(lines) > 2 || len(b.Log.Lines("msg=\"election paused")) != 1 || len(b.Log.Lines("msg=\"election resumed")) != 0 {
			t.Errorf("%d lines: %v", len(lines), lines)
		}
		must(t, electionOf(op, "orders").Resume(t.Context()))
		b.Elected(shortLease/16 + 100*time.Millisecond)
	})
}

// Regression: messages at short intervals kept an observer from ever asking Redis; and it
// must not ask for each.
func TestMessagesDoNotStarveAnObserver(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		events := watch(t, electionOf(c.Quorum("bystander"), "orders"))
		want(t, events, time.Second, elector.EventVacant, "", 0)
		go flood(c, "events", time.Millisecond, 3*shortLease, func(int) string {
			return `1 released 9007199254740991  {"v":1,"kind":"released","election":"orders","token":9007199254740991}`
		})
		a, term := leading(c, "a")
		want(t, events, shortLease/8, elector.EventElected, "a", term.Token())
		c.Nodes[0].Took()
		time.Sleep(shortLease)
		reads := c.Nodes[0].TookOf("read")
		if reads > 30 {
			t.Errorf("%d queries in a lease", reads)
		}
		a.Shutdown()
		ev := next(t, events, shortLease/8)
		if ev.Token != term.Token() || ev.Kind != elector.EventReleased && ev.Kind != elector.EventVacant {
			t.Errorf("%+v", ev)
		}
		time.Sleep(3 * shortLease)
	})
}

// What a forged message costs: a request of each of the few that go first, at most once
// in a sixteenth of a lease, however many there are.
func TestForgedMessagesCostFewClaims(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, term := leading(c, "a")
		const followers = 30
		for i := range followers {
			c.Start(fmt.Sprint("b", i))
		}
		time.Sleep(2*shortLease + time.Second) // between the claims that it would make anyway
		for _, message := range []string{
			fmt.Sprint("1 elected ", term.Token()+1, "  {}"), fmt.Sprint("1 released ", term.Token(), "  {}"), fmt.Sprint("1 released ", term.Token()+7, "  {}"),
		} {
			began := time.Now()
			publish(c, "events", message)
			time.Sleep(shortLease / 32)
			if claims, _ := claims(c.Nodes[0], began); claims > 16 {
				t.Errorf("%q: %d claims", message, claims)
			}
			began = time.Now()
			for range 100 {
				publish(c, "events", message)
				time.Sleep(shortLease / 100)
			}
			if claims, _ := claims(c.Nodes[0], began); claims > followers*2+16*16 {
				t.Errorf("%q, 100 times in a lease: %d claims", message, claims)
			}
		}
		continues(t, term)
	})
}

// answerAll answers every request on the election's channels, as anyone can who may
// subscribe and publish. It ends with the test.
func answerAll(c *cluster, answers ...string) {
	rdb := c.Client("stranger", 0)
	sub := rdb.Subscribe(c.T.Context(), "mandate:{orders}:ask", "mandate:{orders}:roll")
	if _, err := sub.Receive(c.T.Context()); err != nil {
		c.T.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m := range sub.Channel() {
			var q struct{ Nonce string }
			if json.Unmarshal([]byte(m.Payload), &q) != nil || q.Nonce == "" {
				continue
			}
			for _, a := range answers {
				c.Nodes[0].Server().Publish(m.Channel+":"+q.Nonce, a)
			}
		}
	}()
	c.T.Cleanup(func() {
		sub.Close()
		rdb.Close()
		<-done
	})
}

// Anyone who may subscribe sees a roll call, and can answer it. Answers to other requests,
// of other formats, or given twice stand for no candidate, and stop no operator's tool.
func TestForgedAnswersToARollCall(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, term, op := trio(t, c)
		ghost := `{"v":1,"card":{"id":"ghost","incarnation":"g1","role":"following"}}`
		other := `{"v":1,"card":{"id":"other","incarnation":"o1","role":"following","nodes":[{"name":"n","identity":"OTHER1"}]}}`
		answerAll(c, "", "null", "[]", `{"v":1,"refused":"no"}`, `{"v":1,"card":null}`, `{"v":1,"card":{"id":"x"}}`,
			`{"v":2,"card":{"id":"x","incarnation":"x1"}}`, other, ghost, ghost)
		all, err := electionOf(op, "orders").Candidates(t.Context())
		ids := map[string]int{}
		for _, x := range all {
			ids[x.ID]++
		}
		if err != nil || len(all) != 4 || ids["ghost"] != 1 || ids["a"] != 1 || ids["b"] != 1 || ids["c"] != 1 {
			t.Errorf("%v, %v", ids, err)
		}
		if _, _, err := electionOf(op, "orders").Transfer(within(t, time.Minute), "a"); !errors.Is(err, elector.ErrRefused) {
			t.Errorf("transfer to the leader: %v", err)
		}
		continues(t, term)
	})
}

// Regression: a leader that had obeyed was reported as one that refused, because the next
// leader had received the request as well, and answered first that the term is over.
func TestStepDownThatTheNextLeaderAnswersFirst(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		_, term, op := trio(t, c)
		answerAll(c, `{"card":{"id":"b","incarnation":"b1","role":"leading"},"refused":"the term that you mean is over"}`)
		from, to, err := electionOf(op, "orders").StepDown(within(t, shortLease), "deploy")
		if err != nil || from.Token != term.Token() || to.Token <= term.Token() {
			t.Errorf("%+v, %+v, %v", from, to, err)
		}
		wantReason(t, term, 0, elector.ReasonResigned)
	})
}
