package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// healthyCommand is the health check of a container, whose image has no curl.
func healthyCommand() *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use:   "healthy",
		Short: "Ask a worker's /ready: exit 0 when it is, 1 with its reasons when not",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, "http://"+addr+"/ready?full=1", nil)
			if err != nil {
				return err
			}
			resp, err := (&http.Client{Timeout: 2 * time.Second}).Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			why, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
			return fmt.Errorf("%s\n%s", resp.Status, strings.TrimSpace(string(why)))
		},
	}
	cmd.Flags().StringVar(&addr, "http", "127.0.0.1:8080", "where the worker serves it")
	return cmd
}
