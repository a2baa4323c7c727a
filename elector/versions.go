package elector

import "github.com/mandate-dev/mandate/elector/internal/quorum"

// noteVersion takes what a claim has shown of the versions that have led.
func (m *machine) noteVersion(token uint64, t quorum.Tally) {
	if m.cfg.guarded() == "" {
		return
	}
	if foreign := t.ForeignVersion(); foreign != m.memory.foreignVersion {
		if m.memory.foreignVersion = foreign; foreign != "" {
			m.log.Error("highest version is unreadable, any version may lead", "key", m.keys.Version, "value", foreign)
		}
	}
	highest, outdated := t.Outdated()
	before := m.outdated.Load()
	switch {
	case outdated && token == 0:
		if m.outdated.Store(&highest); before == nil || before.Version != highest.Version {
			m.log.Warn("a newer version has led, refusing to lead", "version", m.cfg.Version, "highest_version", highest.Version)
			m.peers.RoleChanged()
		}
	case before != nil && (token != 0 || t.Answered()):
		m.outdated.Store(nil)
		m.log.Info("allowed to lead again", "version", m.cfg.Version)
		m.peers.RoleChanged()
	}
}
