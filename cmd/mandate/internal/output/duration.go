package output

import (
	"fmt"
	"time"
)

// Brief formats a duration in at most seven characters, for tables.
func Brief(d time.Duration) string {
	sign := ""
	if d < 0 {
		d, sign = -d, "-"
	}
	switch {
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return sign + "<1ms"
	case d < time.Second:
		return sign + d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%s%.1fs", sign, d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%s%dm%02ds", sign, int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%s%dh%02dm", sign, int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%s%dd%02dh", sign, int(d.Hours())/24, int(d.Hours())%24)
	}
}

// Rounded formats a duration with as many digits as a person needs.
func Rounded(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	default:
		return d.Round(10 * time.Microsecond).String()
	}
}

// Millis formats a measured time in milliseconds, with its significant digits.
func Millis(d time.Duration) string {
	f := float64(d) / float64(time.Millisecond)
	if f < 100 {
		return fmt.Sprintf("%.1f ms", f)
	}
	return fmt.Sprintf("%.0f ms", f)
}

// MS returns a duration as it is in JSON: milliseconds, with a fraction.
func MS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Age formats how long something has lasted; "?" if it is negative, by a clock that may not be
// ours.
func Age(d time.Duration) string {
	switch d = d.Truncate(time.Second); {
	case d < 0:
		return "?"
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours())/24)
	default:
		return d.String()
	}
}

// Ago formats how long ago t was.
func Ago(t time.Time) string {
	if d := time.Since(t); d > -time.Second {
		return Age(d) + " ago"
	}
	return "by a clock ahead of ours"
}
