package main

import (
	"strings"
	"sync"
)

// captured is what a command has written, maybe from a goroutine that outlives it.
type captured struct {
	mu sync.Mutex
	b  strings.Builder
}

func (c *captured) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.Write(b)
}

func (c *captured) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.String()
}
