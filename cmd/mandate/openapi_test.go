package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electorprom"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/health"
)

// openAPI is what the test reads of docs/http/openapi.yaml.
type openAPI struct {
	Paths map[string]map[string]struct {
		Responses map[string]struct {
			Content map[string]struct{ Schema schema }
		}
	}
	Components struct{ Schemas map[string]schema }
}

type schema struct {
	Ref        string `yaml:"$ref"`
	Required   []string
	Properties map[string]any
}

func (s schema) name() string { return filepath.Base(s.Ref) }

// contract compares what a handler answers with the document, in both directions.
type contract struct {
	t    *testing.T
	doc  openAPI
	mu   sync.Mutex
	seen map[string]bool // method, path and status; schema and key
}

// The document has every path, method, status and key that the handler serves, and nothing else.
func TestOpenAPI(t *testing.T) {
	c := &contract{t: t, seen: map[string]bool{}}
	must(t, yaml.Unmarshal([]byte(textOf(t, "docs/http/openapi.yaml")), &c.doc))
	for name, v := range map[string]any{
		"Leadership": electorhttp.Leadership{}, "Status": elector.Status{}, "Leader": elector.Leader{}, "NodeStatus": elector.NodeStatus{}, "Event": elector.Event{},
	} {
		all, required := keysOf(reflect.TypeOf(v))
		s := c.doc.Components.Schemas[name]
		if got := slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(got, all) {
			t.Errorf("%s has the keys %q, in the document %q", name, all, got)
		}
		if slices.Sort(s.Required); !slices.Equal(s.Required, required) {
			t.Errorf("%s always has %q, in the document %q", name, required, s.Required)
		}
	}
	electortest.Test(t, c.play)
	for _, name := range []string{"Failure", "Live", "Ready", "Resigned"} { // no exported types
		for key := range c.doc.Components.Schemas[name].Properties {
			if !c.seen[name+" "+key] {
				t.Errorf("the document has the key %s in %s, which the handler did not answer", key, name)
			}
		}
	}
	for path, methods := range c.doc.Paths {
		for method, op := range methods {
			for status := range op.Responses {
				if key := strings.ToUpper(method) + " " + path + " " + status; !c.seen[key] {
					t.Errorf("the document has %s, which the handler did not answer", key)
				}
			}
		}
	}
}

// keysOf returns the JSON keys of a type, and those that are never left out.
func keysOf(typ reflect.Type) (all, required []string) {
	for f := range typ.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if ms := f.Tag.Get("ms"); ms != "" {
			name, options, _ = strings.Cut(ms, ",")
		}
		if name == "" || name == "-" {
			continue
		}
		all = append(all, name)
		if options == "" {
			required = append(required, name)
		}
	}
	slices.Sort(all)
	slices.Sort(required)
	return all, required
}

const secretToken = "a long and random secret"

// play brings a handler into every state in which it answers something else.
func (c *contract) play(t *testing.T, r *electortest.Redis) {
	start := func(election string, probe health.Probe, work elector.Work) (*elector.Elector, *electorhttp.Handler, func()) {
		e, err := elector.New(r.Quorum(election), elector.Config{
			Election: election, ID: "a", Probe: probe, Advertise: "http://a:80", Lease: 10 * time.Second, DrainTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
		})
		must(t, err)
		h, err := electorhttp.New(e, electorhttp.Config{Token: secretToken, Metrics: electorprom.New(e).Handler(), Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		return e, h, func() {
			runUntilEnd(t, func(ctx context.Context) error { return e.Run(ctx, h.Work(work)) })
			runUntilEnd(t, h.Run)
		}
	}
	e, h, run := start("e", nil, new(elector.Gate).Work)
	c.all(h)
	run()
	time.Sleep(15 * time.Second)
	c.all(h)
	for _, query := range []string{"?force=x", "", "?force=true", ""} {
		c.ask(h, http.MethodPost, "/resign", query, secretToken)
	}
	c.ask(h, http.MethodPost, "/resign", "", "")
	open, err := electorhttp.New(e, electorhttp.Config{})
	must(t, err)
	c.ask(open, http.MethodPost, "/resign", "", "")
	heal := r.CutOff("e")
	var many sync.WaitGroup
	for range 40 { // more than are asked within the time limit
		many.Go(func() { c.ask(h, http.MethodGet, "/status", "", "") })
	}
	many.Wait()
	heal()
	_, slow, run := start("slow", nil, func(ctx context.Context, _ *elector.Term) error {
		<-ctx.Done()
		time.Sleep(45 * time.Second)
		return nil
	})
	run()
	time.Sleep(15 * time.Second)
	c.ask(slow, http.MethodPost, "/resign", "?force=true", secretToken)
	_, ill, run := start("ill", health.FromCheck(func() error { return errors.New("disk full") }), nil)
	run()
	time.Sleep(15 * time.Second)
	c.ask(ill, http.MethodGet, "/ready", "", "")
}

// all asks for every path by every method.
func (c *contract) all(h http.Handler) {
	for path := range c.doc.Paths {
		status := c.ask(h, http.MethodGet, path, "", "")
		for _, method := range []string{http.MethodHead, http.MethodOptions} {
			if w := serve(h, method, path, "", ""); path != "/resign" && w.Code != status {
				c.t.Errorf("%s %s gets %d, GET %d", method, path, w.Code, status)
			}
		}
		for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodPost} {
			if path != "/resign" || method != http.MethodPost {
				c.ask(h, method, path, "", "")
			}
		}
	}
	c.ask(h, http.MethodGet, "/leader", "?valid_for_ms=x", "")
	c.ask(h, http.MethodGet, "/", "?valid_for_ms=x", "")
	c.ask(h, http.MethodGet, "/undocumented", "", "")
}

func serve(h http.Handler, method, path, query, token string) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	if path == "/events" {
		cancel() // the stream ends after its begin
	}
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, path+query, http.NoBody)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// ask compares an answer with the document.
func (c *contract) ask(h http.Handler, method, path, query, token string) (status int) {
	w := serve(h, method, path, query, token)
	key := fmt.Sprint(method, " ", path, " ", w.Code)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[key] = true
	op, documented := c.doc.Paths[path][strings.ToLower(method)]
	if !documented {
		want := http.StatusNotFound
		if c.doc.Paths[path] != nil {
			want = http.StatusMethodNotAllowed
		}
		if w.Code != want || want == http.StatusMethodNotAllowed && w.Header().Get("Allow") == "" {
			c.t.Errorf("the document lacks %s", key)
		}
		return w.Code
	}
	kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	content, ok := op.Responses[strconv.Itoa(w.Code)].Content[kind]
	if !ok {
		c.t.Errorf("the document lacks %s with %s", key, kind)
		return w.Code
	}
	var body map[string]any
	if kind != "application/json" {
		return w.Code
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		c.t.Errorf("%s: %v in %s", key, err, w.Body)
	}
	s := c.doc.Components.Schemas[content.Schema.name()]
	for name := range body {
		c.seen[content.Schema.name()+" "+name] = true
		if _, ok := s.Properties[name]; !ok {
			c.t.Errorf("%s has the key %s, which %s in the document lacks", key, name, content.Schema.name())
		}
	}
	for _, name := range s.Required {
		if _, ok := body[name]; !ok {
			c.t.Errorf("%s lacks the key %s, which %s in the document requires", key, name, content.Schema.name())
		}
	}
	return w.Code
}
