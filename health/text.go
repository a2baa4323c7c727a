package health

import (
	"bytes"
	"strings"
	"time"
	"unicode"
)

// short rounds a measured time for reading; no reader needs "3.200184113s" in a reason.
func short(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= 100*time.Millisecond:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Microsecond)
}

// maxExcerpt bounds foreign text in an error, in bytes: it is copied into events, logs and Redis.
const maxExcerpt = 200

// excerpt turns what another program wrote into one printable line. With control characters that
// program could forge log lines, or control the terminal of anyone who reads the status.
func excerpt(b []byte) string {
	line := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(string(bytes.TrimSpace(b)), "?"))
	line = strings.TrimSpace(line)
	if len(line) <= maxExcerpt {
		return line
	}
	return strings.ToValidUTF8(line[:maxExcerpt], "") + "..."
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte("\n"))
	return excerpt(line)
}

func lastLine(b []byte) string {
	b = bytes.TrimSpace(b)
	return excerpt(b[bytes.LastIndexByte(b, '\n')+1:])
}
