package elector

import (
	"strings"
	"testing"
	"time"
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

// Each field is checked: what is wrong in one of them shows in a running election only.
func TestEachFieldIsChecked(t *testing.T) {
	good := Config{Election: "orders"}.withDefaults()
	if err := good.validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Config){
		"Election":     func(c *Config) { c.Election = "a{b" },
		"ID":           func(c *Config) { c.ID = strings.Repeat("x", maxName+1) },
		"Advertise":    func(c *Config) { c.Advertise = strings.Repeat("x", maxAdvertise+1) },
		"Version":      func(c *Config) { c.Version = "v 1" },
		"Succession":   func(c *Config) { c.Succession = "eldest" },
		"DrainTimeout": func(c *Config) { c.DrainTimeout = -1 },
		"Cooldown":     func(c *Config) { c.Cooldown = -1 },
		"RestartDelay": func(c *Config) { c.RestartDelay = -1 },
		"MaxTerm":      func(c *Config) { c.MaxTerm = -1 },
	} {
		cfg := good
		if change(&cfg); cfg.validate() == nil || !strings.Contains(cfg.validate().Error(), field) {
			t.Errorf("%s: %v", field, cfg.validate())
		}
	}
	most := good
	most.ID, most.Advertise, most.Version = strings.Repeat("x", maxName), strings.Repeat("x", maxAdvertise), strings.Repeat("x", maxAdvertise)
	if err := most.validate(); err != nil {
		t.Errorf("at the bounds: %v", err)
	}
}
