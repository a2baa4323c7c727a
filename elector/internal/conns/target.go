package conns

// elsewhere reports whether a connection leads to where the server was before: a master that
// hung while another one was promoted, and that has woken up, grants and forgets for
// itself until it learns that it is a replica. The caller holds mu.
func (p *Pool) elsewhere(c *conn) bool {
	return p.moves && c.to.addr != p.at.addr && c.to.seq < p.at.seq
}

// arrive notes where a new connection leads to, and takes out what leads elsewhere. With
// mu held.
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
