package shard

import "errors"

// Term returns this member's term as the owner of a shard; nil: it does not own the shard now, by
// the clock. It does no I/O.
func (m *Member) Term(shard int) *Term {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.owned[shard]; t != nil && t.Valid() {
		return t
	}
	return nil
}

// Check returns nil if this member can be given shards, or else what is wrong. A member that owns no
// shard does not fail it, so Check fits a readiness check of all members. It does no I/O.
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

// Group returns the group's name.
func (m *Member) Group() string { return m.cfg.Group }
