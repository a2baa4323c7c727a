package elector

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A line that does not fit is counted, and the next one that is written says so.
func TestDroppedLogLinesAreCounted(t *testing.T) {
	var written strings.Builder
	handler, lines := slog.NewTextHandler(&written, nil), &lines{}
	held, hold := make(chan struct{}), make(chan struct{})
	lines.put(func(int) { close(held); <-hold })
	<-held
	log := slog.New(background{handler, lines})
	for i := range maxLines + 44 {
		log.Info(fmt.Sprint("line ", i))
	}
	close(hold)
	lines.flush(time.Minute)
	log.Info("after")
	lines.flush(time.Minute)
	all := strings.Split(strings.TrimSpace(written.String()), "\n")
	if len(all) != maxLines+2 || !strings.HasSuffix(all[0], `reader is gone or too slow" count=44`) || !strings.HasSuffix(all[maxLines+1], "msg=after") {
		t.Errorf("%d lines: %s ... %s", len(all), all[0], all[len(all)-1])
	}
}
