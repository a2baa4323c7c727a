package testredis

import "github.com/alicebob/miniredis/v2"

func (n *Node) start() {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if conn, err := m.Dial(); err == nil { // starts the server, without a listener
		conn.Close()
	}
	m.Server().SetPreHook(n.before)
	n.mu.Lock()
	n.m = m
	n.mu.Unlock()
}

// RestartEmpty restarts the node without its data, and closes all connections.
func (n *Node) RestartEmpty() {
	old := n.Server()
	n.start()
	n.Reset("")
	old.Close()
}
