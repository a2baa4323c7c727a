package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON prints a value as indented JSON.
func JSON(w io.Writer, v any) error { return encode(w, v, "  ") }

// JSONLine prints a value as one line of JSON.
func JSONLine(w io.Writer, v any) error { return encode(w, v, "") }

// encode prints a value and a newline.
func encode(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", indent)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(forTerminals(b.Bytes()))
	return err
}

// forTerminals escapes characters that JSON allows in strings but that terminals interpret: U+009B
// begins a command as ESC [ does, and controls of the writing direction make a name look like
// another one. Anyone who may write to Redis may have put them there. The value stays the same:
// outside of strings JSON is plain ASCII.
func forTerminals(text []byte) []byte {
	safe := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == '\n' || unicode.IsPrint(r) && r != utf8.RuneError:
			safe = append(safe, text[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			safe = fmt.Appendf(safe, `\u%04x\u%04x`, high, low)
		default:
			safe = fmt.Appendf(safe, `\u%04x`, r)
		}
		text = text[n:]
	}
	return safe
}

// MS returns a duration as it is in JSON: milliseconds, with a fraction.
func MS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
