package elector

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// The defaults that Config documents: without a DrainTimeout the lease would lapse under
// work that stops well, and without a RestartDelay work that returns at once would spin.
func TestDefaultsOfTheDurations(t *testing.T) {
	got := Config{Election: "orders"}.withDefaults()
	if got.Lease != 10*time.Second || got.RenewEvery != 2500*time.Millisecond || got.StopMargin != 2500*time.Millisecond ||
		got.DrainTimeout != 10*time.Second || got.Cooldown != 10*time.Second || got.RestartDelay != time.Second || got.MaxTerm != 0 {
		t.Errorf("%+v", got)
	}
	own := Config{Lease: 1, RenewEvery: 2, StopMargin: 3, DrainTimeout: 4, Cooldown: 5, RestartDelay: 6, Version: "v1", ID: "me"}
	if d := own.withDefaults(); d.Lease != 1 || d.RenewEvery != 2 || d.StopMargin != 3 || d.DrainTimeout != 4 || d.Cooldown != 5 ||
		d.RestartDelay != 6 || d.Version != "v1" || d.ID != "me" {
		t.Errorf("%+v", d)
	}
}

// A default that is in the way can be turned off: 0 is taken, it means the default.
func TestNegativeDurationsMeanNone(t *testing.T) {
	d := Config{DrainTimeout: -1, Cooldown: -time.Hour, RestartDelay: -1, MaxTerm: -1}.withDefaults()
	if d.DrainTimeout != 0 || d.Cooldown != 0 || d.RestartDelay != 0 || d.MaxTerm != 0 {
		t.Errorf("%+v", d)
	}
	for _, r := range []Reason{ReasonUnhealthy, ReasonResigned, ReasonHandover, ReasonFinished} {
		if got := d.restAfter(r, 3); got != 0 {
			t.Errorf("after %s it rests for %v", r, got)
		}
	}
}

// Nothing to run is refused before anybody is elected for it, and so is an Elector that
// New did not make.
func TestRunRefusesWhatCantWork(t *testing.T) {
	if err := offline(t, 1).Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "work is nil") {
		t.Errorf("Run without work: %v", err)
	}
	var zero Elector
	_, campaign := zero.Campaign(t.Context())
	for i, err := range []error{zero.Run(t.Context(), func(context.Context, *Term) error { return nil }), campaign, zero.Check()} {
		if err == nil || !strings.Contains(err.Error(), "New") {
			t.Errorf("%d, a zero Elector: %v", i, err)
		}
	}
}

// Whoever ended the context of Run may say why: the cause reaches the work.
func TestShutdownKeepsTheCause(t *testing.T) {
	drained := errors.New("the node is drained")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(drained)
	if got := shutdownCause(ctx); !errors.Is(got, drained) {
		t.Errorf("%v", got)
	}
	ended := &Ended{Reason: ReasonShutdown, Err: drained}
	if !errors.Is(ended, drained) || ended.detail() != "" {
		t.Errorf("%v, %q", ended, ended.detail())
	}
	plain, stop := context.WithCancel(t.Context())
	stop()
	if got := shutdownCause(plain); got != nil {
		t.Errorf("a plain cancel says %v", got)
	}
}

// Each field is checked: what is wrong in one of them shows in a running election only.
func TestEachFieldIsChecked(t *testing.T) {
	good := Config{Election: "orders"}.withDefaults()
	if err := good.validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Config){
		"Election":   func(c *Config) { c.Election = "a{b" },
		"ID":         func(c *Config) { c.ID = strings.Repeat("x", protocol.MaxName+1) },
		"Advertise":  func(c *Config) { c.Advertise = strings.Repeat("x", protocol.MaxAdvertise+1) },
		"Version":    func(c *Config) { c.Version = "v 1" },
		"Succession": func(c *Config) { c.Succession = "eldest" },
	} {
		cfg := good
		if change(&cfg); cfg.validate() == nil || !strings.Contains(cfg.validate().Error(), field) {
			t.Errorf("%s: %v", field, cfg.validate())
		}
	}
	most := good
	most.ID, most.Advertise, most.Version = strings.Repeat("x", protocol.MaxName), strings.Repeat("x", protocol.MaxAdvertise), strings.Repeat("x", protocol.MaxAdvertise)
	if err := most.validate(); err != nil {
		t.Errorf("at the bounds: %v", err)
	}
}
