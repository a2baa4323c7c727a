// Package millis writes structs as JSON with durations in milliseconds, under keys that end in _ms: no reader knows the
// unit of bare nanoseconds, and measured times, such as a round trip, need the fraction. The tag "ms" of a field has its key.
package millis

import (
	"encoding/json"
	"iter"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Marshal returns v, a struct, as JSON with its durations.
func Marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	b = b[:len(b)-1]
	for key, d := range durations(reflect.ValueOf(v)) {
		key, omit := strings.CutSuffix(key, ",omitempty")
		if omit && d.Int() == 0 {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, key), ':')
		b = strconv.AppendFloat(b, float64(time.Duration(d.Int()).Microseconds())/1000, 'f', -1, 64)
	}
	return append(b, '}'), nil
}

// Unmarshal reads what Marshal writes into v, a pointer to a struct.
func Unmarshal(b []byte, v any) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	for key, d := range durations(reflect.ValueOf(v).Elem()) {
		raw, ok := fields[strings.TrimSuffix(key, ",omitempty")]
		if !ok {
			continue
		}
		var ms float64
		if err := json.Unmarshal(raw, &ms); err != nil {
			return err
		}
		const longest = float64(math.MaxInt64 / time.Millisecond) // a foreign event may hold any number
		d.SetInt(int64(math.Round(max(-longest, min(longest, ms)) * float64(time.Millisecond))))
	}
	return json.Unmarshal(b, v)
}

// durations goes through the fields of a struct that have a tag "ms".
func durations(s reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for i := range s.NumField() {
			if key := s.Type().Field(i).Tag.Get("ms"); key != "" && !yield(key, s.Field(i)) {
				return
			}
		}
	}
}
