package elector

import (
	"context"

	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// observeOnly runs an observer: it reads once per lease who leads, until ctx ends. It claims nothing,
// and its probes have no influence on it.
func (m *machine) observeOnly(ctx context.Context) error {
	m.become(RoleObserving, nil)
	if err := m.meet(ctx); err != nil {
		return err
	}
	look := m.newPoller()
	defer look.close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.due.C:
			look.start()
		case views := <-look.views:
			look.take(views)
			m.setCondition(m.unreadable(views))
		}
	}
}

// unreadable returns why an observer does not know who leads.
func (m *machine) unreadable(views []registry.View) condition {
	var errs []error
	for _, v := range views {
		if v.Err != nil {
			errs = append(errs, v.Err)
		}
	}
	if len(views)-len(errs) >= m.nodes.Majority() {
		return condition{}
	}
	return condition{key: ErrUnreachable.Error(), err: noMajority(m.nodes, errs)}
}
