package elector

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Each trace of an election keeps a candidate from taking a loss of data for a first
// start; a node without any leaves none.
func TestTracesOfAnElection(t *testing.T) {
	for _, c := range []struct {
		a      protocol.Answer
		traced bool
	}{
		{protocol.Answer{Status: protocol.Abstains}, false},
		{protocol.Answer{Status: protocol.Unknown}, false},
		{protocol.Answer{Status: protocol.Abstains, Fence: 1}, true},
		{protocol.Answer{Status: protocol.Won, Fence: 1}, true},
		{protocol.Answer{Status: protocol.Held}, true},
		{protocol.Answer{Status: protocol.Paused}, true},
		{protocol.Answer{Status: protocol.Reserved}, true},
	} {
		var k memory
		for range 2 { // it does not wear off
			k.learn(quorum.Tally{Answers: []protocol.Answer{{Status: protocol.Abstains}, c.a, {Status: protocol.Abstains}}})
			if k.traced != c.traced || k.highest != c.a.Fence {
				t.Errorf("%+v: traced %v, highest %d", c.a, k.traced, k.highest)
			}
			k.learn(quorum.Tally{Answers: []protocol.Answer{{Status: protocol.Abstains}}})
		}
	}
}

// What makes a subscription impossible is logged once: a right that is missing, and an answer that nothing else explains,
// as of a proxy without publish/subscribe. What passes, or what the requests report too, is not.
func TestImpossibleSubscriptionIsLoggedOnce(t *testing.T) {
	for text, want := range map[string]int{
		"NOPERM no permissions to access a channel":                               1,
		"ERR unsupported command":                                                 1,
		"LOADING Redis is loading the dataset in memory":                          0,
		"BUSY Redis is busy running a script.":                                    0,
		"NOPERM this user has no permissions to run the 'ping' command":           0,
		"NOPERM this user has no permissions to run the 'unsubscribe' command":    0,
		"NOPERM User mandate has no permissions to run the 'unsubscribe' command": 0,
		"NOPERM this user has no permissions to run the 'subscribe' command":      1,
		"ERR 'unsubscribe'": 1,
		"NOPERM this user has no permissions to access one of the channels used as arguments": 1,
	} {
		keys, logged := protocol.KeysOf("mandate", "e"), bytes.Buffer{}
		c := candidate{log: slog.New(slog.NewTextHandler(&logged, nil)), keys: &keys}
		for range 3 {
			c.logNotSubscribed(&rediserr.NodeError{Node: "n", Err: rediserr.Refusal(text)})
			c.logNotSubscribed(&rediserr.NodeError{Node: "n", Err: io.EOF})
		}
		if n := strings.Count(logged.String(), "cannot subscribe"); n != want {
			t.Errorf("%s: logged %d times", text, n)
		}
	}
}
