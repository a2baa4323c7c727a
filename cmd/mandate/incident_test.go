//go:build unix

package main

import (
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// TestIncidentsReal plays each incident of docs/runbook.md on real servers, and compares the text of the two
// commands that an operator types.
func TestIncidentsReal(t *testing.T) {
	servertest.NeedRedis(t)
	cmds := maps.Clone(scriptCommands)
	maps.Copy(cmds, map[string]func(*testscript.TestScript, bool, []string){
		"nodes": cmdNodes, "node": cmdNode, "skew": cmdSkew, "explain": cmdExplain, "prints": cmdPrints,
	})
	testscript.Run(t, testscript.Params{
		Dir: "testdata/incident", RequireExplicitExec: true, RequireUniqueNames: true, Setup: setupScript, Cmds: cmds,
	})
}

// The runbook's table has every incident, and its two commands are those that the script
// types, in this order.
func TestIncidentsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| \\[([^\\]]+)\\]\\(../cmd/mandate/testdata/incident/([a-z-]+)\\.txtar\\) \\| `mandate ([^`]+)`: [^|]+ \\| `mandate ([^`]+)`")
	rows := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = m[2:]
	}
	scripts, err := filepath.Glob("testdata/incident/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(scripts) || len(rows) < 20 {
		t.Errorf("%d scripts, %d rows of the table", len(scripts), len(rows))
	}
	for incident, is := range rows {
		script := strings.ToLower(strings.ReplaceAll(incident, " ", "-"))
		played, err := os.ReadFile("testdata/incident/" + script + ".txtar")
		if err != nil || is[0] != script {
			t.Errorf("%s: its row links %s.txtar: %v", incident, is[0], err)
			continue
		}
		first := regexp.MustCompile(`(?m)^explain '[^'\n]+' '[^'\n]+' ` + regexp.QuoteMeta(is[1]) + `$`).FindIndex(played)
		second := regexp.MustCompile(`(?m)^prints '[^'\n]+' `+regexp.QuoteMeta(is[2])+`$`).FindAllIndex(played, -1)
		if first == nil || len(second) == 0 || second[len(second)-1][0] < first[0] {
			t.Errorf("%s: the script does not explain it by mandate %s, and then mandate %s", incident, is[1], is[2])
		}
	}
}

// nodes N [ARG...]: N servers in place of that on $PORT, in $MANDATE_REDIS, each with its URL
// in $NODE1 and so on.
func cmdNodes(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	v := valuesOf(ts)
	v.nodes = servertest.RedisN(v.t, n, args[1:]...)
	var urls []string
	for i, s := range v.nodes {
		urls = append(urls, s.URL())
		ts.Setenv("NODE"+strconv.Itoa(i+1), s.URL())
	}
	ts.Setenv("MANDATE_REDIS", strings.Join(urls, ","))
}

// node I stop | cont | kill | start | forget
func cmdNode(ts *testscript.TestScript, _ bool, args []string) {
	v := valuesOf(ts)
	i, err := strconv.Atoi(args[0])
	ts.Check(err)
	s := v.nodes[i-1]
	switch args[1] {
	case "stop":
		s.Hang(v.t)
	case "cont":
		s.Wake(v.t)
	case "kill":
		s.Kill()
	case "start":
		s.Restart(v.t)
	case "forget":
		s.Do(v.t, "FLUSHALL")
	default:
		ts.Fatalf("node %q?", args)
	}
}

// timeReply is what a server answers to TIME; only the seconds are looked at.
var timeReply = regexp.MustCompile(`\*2\r\n\$10\r\n(\d{10})\r\n\$\d\r\n`)

// skew: $SKEWED is the first node, seen through a proxy that sets its clock forward by 90 s.
func cmdSkew(ts *testscript.TestScript, _ bool, _ []string) {
	v := valuesOf(ts)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go skewed(c, v.nodes[0].Addr())
		}
	}()
	ts.Setenv("SKEWED", "redis://"+l.Addr().String())
}

// skewed ends with either side of the connection.
func skewed(c net.Conn, addr string) {
	defer c.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, c)
		_ = server.Close()
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := server.Read(b)
		if err != nil {
			return
		}
		if at := timeReply.FindSubmatchIndex(b[:n]); at != nil {
			seconds, _ := strconv.Atoi(string(b[at[2]:at[3]]))
			copy(b[at[2]:at[3]], strconv.Itoa(seconds+90))
		}
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}

// explain WHAT NEXT ARG...: runs mandate until its first line says what happened, and the
// next one what to type; "-" for a NEXT that there must not be.
func cmdExplain(ts *testscript.TestScript, _ bool, args []string) {
	what, next := regexp.MustCompile("^(?:"+args[0]+")$"), regexp.MustCompile("^(?:"+args[1]+")$")
	ts.Check(poll(func() error {
		_ = ts.Exec("mandate", args[2:]...) // the codes are another table
		lines := strings.Split(strings.ReplaceAll(ts.ReadFile("stdout"), "\n"+strings.Repeat(" ", 12), " "), "\n")
		first, second := lines[0], "-"
		if len(lines) > 1 {
			if n, is := strings.CutPrefix(lines[1], "next "); is {
				second = strings.TrimSpace(n)
			}
		}
		if !what.MatchString(first) || !next.MatchString(second) {
			return fmt.Errorf("mandate %s begins with\n%q, next %q; want\n%q, next %q", strings.Join(args[2:], " "), first, second, what, next)
		}
		return nil
	}))
}

// prints PATTERN ARG...: runs mandate until it prints this.
func cmdPrints(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[0])
	ts.Check(poll(func() error {
		_ = ts.Exec("mandate", args[1:]...)
		if out := ts.ReadFile("stdout"); !want.MatchString(out) {
			return fmt.Errorf("mandate %s prints\n%swant %q", strings.Join(args[1:], " "), out, want)
		}
		return nil
	}))
}
