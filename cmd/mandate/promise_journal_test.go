//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// entry is a line of the journal of the programs that work beside mandate serve.
// All times are of one process, and its monotonic clock.
type entry struct {
	Who   string        `json:"who"`
	Token uint64        `json:"token"`
	From  time.Duration `json:"from"`            // it may work from here on
	Until time.Duration `json:"until,omitempty"` // up to here; 0: it has stopped at From, whatever it was promised
}

// journal is an append-only file.
type journal struct {
	began time.Time
	mu    sync.Mutex
	file  *os.File
}

func newJournal(t *testing.T) *journal {
	t.Helper()
	f, err := os.OpenFile(t.TempDir()+"/journal", os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &journal{began: time.Now(), file: f}
}

func (j *journal) now() time.Duration { return time.Since(j.began) }

func (j *journal) write(e entry) {
	line, err := json.Marshal(e)
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, werr := j.file.Write(append(line, '\n')); err != nil || werr != nil {
		panic(fmt.Sprint(err, werr)) // a journal that can't be written proves nothing
	}
}

func (j *journal) read(t *testing.T) (all []entry) {
	t.Helper()
	if _, err := j.file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(j.file); lines.Scan(); {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// permitted are the stretches of time in which one program may have worked in one
// term.
func permitted(all []entry) []entry {
	var merged []entry
	newest := map[string]int{} // of each program
	for _, e := range all {
		i, ok := newest[e.Who]
		switch {
		case e.Until == 0 && ok:
			merged[i].Until = min(merged[i].Until, e.From)
		case e.Until == 0:
		case ok && merged[i].Token == e.Token && e.From <= merged[i].Until:
			merged[i].Until = max(merged[i].Until, e.Until)
		default:
			newest[e.Who] = len(merged)
			merged = append(merged, e)
		}
	}
	slices.SortFunc(merged, func(a, b entry) int { return int(a.From - b.From) })
	return merged
}

// overlaps is what must not be: two programs that may work at one time, and tokens
// that go down. Nothing is forgiven: all times are of one clock.
func overlaps(all []entry) (found []string) {
	spans := permitted(all)
	for i, a := range spans {
		for _, b := range spans[i+1:] {
			if b.From >= a.Until {
				continue
			}
			if both := min(a.Until, b.Until) - b.From; a.Who != b.Who && both > 0 {
				found = append(found, fmt.Sprintf("%s (token %d) and %s (token %d) may both work for %v, from %v on", a.Who, a.Token, b.Who, b.Token, both, b.From))
			}
		}
		if i > 0 && a.Token < spans[i-1].Token {
			found = append(found, fmt.Sprintf("%s works with token %d after %s did with %d", a.Who, a.Token, spans[i-1].Who, spans[i-1].Token))
		}
	}
	return found
}

// What docs/http.md says about the time between the deadline and the next leader:
// --grace, and a tenth of the lease, at most 1 s.
func TestStopTimes(t *testing.T) {
	for lease, want := range map[time.Duration][2]time.Duration{
		time.Second: {200 * time.Millisecond, 100 * time.Millisecond}, 8 * time.Second: {1600 * time.Millisecond, 800 * time.Millisecond},
		10 * time.Second: {2 * time.Second, time.Second}, time.Minute: {12 * time.Second, time.Second},
	} {
		a := &app{}
		grace, kill := a.stopTimes(&campaignFlags{lease: lease}, false)
		if grace != want[0] || kill != want[1] || len(a.problems) > 0 {
			t.Errorf("lease %v: %v and %v, want %v; %q", lease, grace, kill, want, a.problems)
		}
	}
}

func TestOverlapsAreFound(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		journal []entry
		want    string
	}{
		"one after the other":     {[]entry{{"a", 1, 0, 10 * ms}, {"b", 2, 10 * ms, 20 * ms}}, ""},
		"beside":                  {[]entry{{"a", 1, 0, 10 * ms}, {"b", 2, 9 * ms, 20 * ms}}, "both work for 1ms"},
		"an older one, longer":    {[]entry{{"a", 1, 0, 30 * ms}, {"b", 2, 10 * ms, 20 * ms}}, "both work for 10ms"},
		"stopped before":          {[]entry{{"a", 1, 0, 30 * ms}, {Who: "a", Token: 1, From: 8 * ms}, {"b", 2, 9 * ms, 20 * ms}}, ""},
		"stopped, and asks again": {[]entry{{"a", 1, 0, 30 * ms}, {Who: "a", Token: 1, From: 8 * ms}, {"b", 2, 9 * ms, 20 * ms}, {"a", 1, 10 * ms, 12 * ms}}, "both work for 2ms"},
		"permission after another": {
			[]entry{{"a", 1, 0, 10 * ms}, {"a", 1, 5 * ms, 15 * ms}, {"b", 2, 15 * ms, 20 * ms}, {"a", 3, 20 * ms, 30 * ms}}, "",
		},
		"a smaller token": {[]entry{{"a", 2, 0, 10 * ms}, {"b", 1, 10 * ms, 20 * ms}}, "works with token 1 after"},
	} {
		got := strings.Join(overlaps(tc.journal), "\n")
		if !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
