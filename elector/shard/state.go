package shard

import "errors"

// Term is this member's term as the owner of a shard; nil: it does not own it now, by the
// clock. No I/O.
func (m *Member) Term(shard int) *Term {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.owned[shard]; t != nil && t.Valid() {
		return t
	}
	return nil
}

// Check reports whether this member can be given shards: nil, or what is wrong. It does not
// fail for owning none, so it fits a readiness check of all members. No I/O.
func (m *Member) Check() error {
	if !m.running.Load() {
		return errors.New("shard: Run is not running")
	}
	if m.silent.Load() {
		return errSilence
	}
	if err := m.unhealthy(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.plan == nil {
		return errors.New("shard: no plan has been received yet: no assigner leads, or it does not count this member yet")
	}
	return nil
}

// Group is the group's name.
func (m *Member) Group() string { return m.cfg.Group }
