package protocol

import (
	"strings"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// ExplainDenied adds to err the right that a script of this election lacked, if the server refused it a key
// or a channel without naming which.
func (k Keys) ExplainDenied(err error) error {
	if err == nil || !rediserr.Denied(err) {
		return err
	}
	if rediserr.Named(err) {
		return err
	}
	switch msg := err.Error(); {
	case strings.Contains(msg, "channel"):
		return rediserr.Needs(err, "&"+k.Prefix()+":*")
	case rediserr.NamesCommand(err):
		return err
	case strings.Contains(msg, "key"):
		return rediserr.Needs(err, "~"+k.Prefix()+":*")
	}
	return err
}
