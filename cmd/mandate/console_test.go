//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// viewer ADDR TEXT: looks at the console on ADDR until it tells the text.
func cmdViewer(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ts.Check(viewer(ctx, "http://"+args[0], args[1]))
}

func viewer(ctx context.Context, url, text string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/live", http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
