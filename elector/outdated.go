package elector

// tooOld is why this candidate refuses to lead; nil: it does not.
func (c *candidate) tooOld() error {
	no := c.outdated.Load()
	if no == nil {
		return nil
	}
	return failed(nil, "%s has led, this candidate is %s: refusing to lead", no.Version, c.cfg.Version)
}
