package health

import (
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSettingsAtTheirBounds(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name string
		s    Settings
		want []string // words of the problems, in order; none: valid
	}{
		{"zero", Settings{}, nil},
		{"one failure", Settings{Failures: 1, Interval: ms, Timeout: ms}, nil},
		{"interval of 1ms", Settings{Interval: ms}, nil},
		{"forgotten units", Settings{Interval: 5, Timeout: 1, StartGrace: 30}, []string{"Interval is 5ns", "Timeout is 1ns", "StartGrace is 30ns"}},
		{"interval below 1ms", Settings{Interval: ms - 1}, []string{"Interval is 999.999µs"}},
		{"only Failures is negative", Settings{Failures: -1}, []string{"Failures is -1"}},
		{"grace", Settings{StartGrace: time.Hour}, nil},
		{"all negative", Settings{-1, -1, -1, -1, -1},
			[]string{"Interval is -1ns", "Timeout is -1ns", "StartGrace is -1ns", "Failures is -1", "Successes is -1"}},
		{"too many", Settings{Failures: 1001, Successes: math.MaxInt}, []string{"Failures is 1001: give 1 to 1000", "Successes is 9223372036854775807"}},
		{"too long", Settings{Interval: 24*time.Hour + 1, Timeout: math.MaxInt64}, []string{"Interval is 24h0m0.000000001s: give at most 24h0m0s", "Timeout is"}},
		{"too long together", Settings{Interval: 12 * time.Hour, Timeout: 12 * time.Hour}, []string{"3 x (12h0m0s + 12h0m0s) = 72h0m0s, above 24h0m0s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.s.Validate()
			if len(c.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("got %d problems, want %d:\n%v", len(lines), len(c.want), err)
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("problem %d is %q, want %q", i, lines[i], want)
				}
			}
			if _, err := NewRunner(Func(nil), c.s); err == nil {
				t.Error("NewRunner took it")
			}
		})
	}
}
