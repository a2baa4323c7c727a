package conns

// elsewhere reports whether a connection leads to a former address of the server. A master that
// hung while another one was promoted, and that runs again, grants and loses locks on its own
// until it learns that it is a replica. The caller holds mu.
func (p *Pool) elsewhere(c *conn) bool {
	return p.moves && c.to.addr != p.at.addr && c.to.seq < p.at.seq
}

// arrive records where a new connection leads to, and removes and returns the idle connections
// that lead elsewhere, for the caller to close. The caller holds mu.
func (p *Pool) arrive(c *conn) (gone []*conn) {
	if !p.moves || c.to.seq < p.at.seq {
		return nil
	}
	p.at = c.to
	var rest []*conn
	for _, c := range p.idle {
		if p.elsewhere(c) {
			gone = append(gone, c)
			delete(p.all, c)
		} else {
			rest = append(rest, c)
		}
	}
	p.idle = rest
	return gone
}
