package elector

import (
	"context"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/registry"
	"github.com/mandate-dev/mandate/elector/internal/semver"
)

// AnyVersion has AllowOlder let every version lead.
const AnyVersion = protocol.AnyVersion

// AllowOlder is for a rollback: it lets candidates with Config.NoDowngrade lead although they are
// older than the highest version that has led, down to the version lowest, or down to any version for
// AnyVersion. The permission lasts until an older version has led, which is the highest from then on;
// until a version newer than all before has led; or until RefuseOlder. It blocks for at most 4 s.
// reason is for operators to see, at most 500 bytes; the history records who allowed it (As), when
// and why. The error is ErrRefused when no majority of the nodes keeps a version; other errors are
// those of Pause. It is no error when it was allowed already.
func (el *Election) AllowOlder(ctx context.Context, lowest, reason string) error {
	if lowest != AnyVersion && (!semver.Valid(lowest) || protocol.CheckWord("", lowest, protocol.MaxAdvertise, "") != nil) {
		return failed(nil, "the version %q: give a semantic version, such as v1.4.2, or %q", lowest, AnyVersion)
	}
	return el.setHighest(ctx, lowest, reason)
}

// RefuseOlder revokes the permission of AllowOlder. It is no error when there was none. Bounds and
// errors are those of AllowOlder.
func (el *Election) RefuseOlder(ctx context.Context) error { return el.setHighest(ctx, "", "") }

func (el *Election) setHighest(ctx context.Context, allow, reason string) error {
	if err := checkReason(el.signed(reason)); err != nil {
		return err
	}
	st, err := el.look(ctx)
	if err != nil {
		return err
	}
	if st.Version == "" {
		return newRefusal("no version has led of which a majority of the nodes knows: nothing keeps older ones from leading")
	}
	h := protocol.Highest{Version: st.Version, Allow: allow}
	ev := Event{Kind: eventOlderRefused, By: el.operator, Highest: st.Version}
	if allow != "" {
		h.By, h.Reason, h.Since = el.operator, strings.ToValidUTF8(reason, "?"), time.Now().UTC().Truncate(time.Millisecond)
		ev.Kind, ev.Lowest, ev.Detail = eventOlderAllowed, allow, h.Reason
	}
	err = partialFailure(el.nodes, registry.SetHighest(ctx, el.nodes, el.keys, h, statusTimeout))
	el.record(ctx, ev, err, el.channel().Resumed)
	return err
}
