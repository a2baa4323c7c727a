package doctor

import (
	"github.com/mandate-dev/mandate/elector/internal/registry"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// cordons checks the history of the prefix's cordons. The cordons in force have a key of their own,
// so a fault of the history costs only the record.
func (e *examination) cordons(f *registry.Facts) {
	c := &f.Cordons
	switch {
	case rediserr.WrongType(c.ReadErr):
		e.add(f.Node, "cordons", LevelWarn, "look at it with redis-cli TYPE '"+c.History+"'; if it is no stream and nothing else uses it: redis-cli DEL",
			"%s can't be read, and no cordon is recorded: %s", c.History, problemOf(c.ReadErr))
	case c.WriteErr != nil:
		e.add(f.Node, "cordons", LevelWarn, c.WriteGrant, "cordons work, and are not recorded in %s: %s", c.History, problemOf(c.WriteErr))
	case rediserr.Denied(c.ReadErr):
		e.add(f.Node, "cordons", LevelUnknown, "grant +xrevrange ~"+c.History+" to see it", "%s can't be read: %s", c.History, problemOf(c.ReadErr))
	}
}
