package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/shard"
)

// Whatever the commands print as JSON has its keys in docs/json.md, and no bare nanoseconds.
func TestJSONKeysAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "json.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{
		&elector.Status{}, &elector.CandidateStatus{}, &elector.TermRecord{}, &elector.Event{}, &doctor.Finding{}, &handoverJSON{}, &pauseJSON{}, &report{}, &reportMore{}, &history{}, &shard.Status{},
	} {
		fill(reflect.ValueOf(v).Elem())
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		keys := regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(string(b), -1)
		if len(keys) < 4 {
			t.Errorf("%T has only the keys %q", v, keys)
		}
		for _, key := range keys {
			if strings.HasSuffix(key[1], "_ns") || !strings.Contains(string(page), "`"+key[1]+"`") {
				t.Errorf("%T: the key %q is not in docs/json.md", v, key[1])
			}
		}
	}
}

// fill sets every field, so that none is left out.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Interface: // an error
		v.Set(reflect.ValueOf(io.EOF))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(time.Second))
	case reflect.Uint64:
		v.SetUint(1)
	}
}
