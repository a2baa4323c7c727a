package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A number without a unit can't be read as a duration.
func TestJSONLogsGiveUnits(t *testing.T) {
	var out bytes.Buffer
	slog.New(handlerFor(&out, "json", &slog.HandlerOptions{})).With("grace", 400*time.Millisecond).Info("stopping", "ran_for", 2703*time.Millisecond)
	if !strings.Contains(out.String(), `"grace":"400ms","ran_for":"2.703s"`) {
		t.Error(out.String())
	}
}
