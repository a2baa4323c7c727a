package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// unreachable returns the advice for a node whose PING has failed; empty: there is none.
func unreachable(node string, err error) string {
	var name *net.DNSError
	switch msg := problemOf(err); {
	case errors.As(err, &name):
		return "correct the host name, or DNS on this machine"
	case late(err):
		return "look for a process that hangs at " + node + ", or a firewall that drops what is sent there"
	case strings.Contains(msg, "connection refused"):
		return "start Redis at " + node + ", or correct host and port"
	case rediserr.Answered(err) && remedy(msg) != grant:
		return remedy(msg)
	default:
		return ""
	}
}

// causeOf returns the text of problemOf. If a connection failed it is shortened, and leaves out the
// address, which is printed beside it.
func causeOf(err error) string {
	if late(err) {
		return "no answer in time"
	}
	msg := problemOf(err)
	if _, after, found := strings.Cut(msg, ": "); found && strings.HasPrefix(msg, "dial ") {
		msg = after
	}
	return strings.TrimRight(msg, ".")
}

func late(err error) bool {
	var slow net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout()
}

// problemOf returns the text of an error. It leaves out the node's name, which is printed beside it,
// and the advice for an election, which does not need most of the commands that are tried here.
func problemOf(err error) string {
	var node *rediserr.NodeError
	if errors.As(err, &node) {
		err = node.Err
	}
	return elector.Problem(err)
}

// remedy returns the advice for a refusal. Not every refusal means that a right is missing.
func remedy(refusal string) string {
	switch {
	case strings.Contains(refusal, "READONLY"), strings.Contains(refusal, "MOVED "):
		return "see failover, below"
	case strings.Contains(refusal, "OOM "):
		return "give this Redis more memory, or make room"
	case strings.Contains(refusal, "MISCONF"):
		return "fix the disk of this Redis: it refuses writes because it cannot save"
	case strings.Contains(refusal, "LOADING"):
		return "wait: it is reading its data"
	default:
		return grant
	}
}

func short(d time.Duration) time.Duration {
	if d.Abs() < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// list joins the first few names.
func list(names []string) string {
	const shown = 5
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}

const grant = "grant the rights that docs/redis.md lists"
