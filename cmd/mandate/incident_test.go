//go:build unix

package main

import (
	"bytes"
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

const incidentsIntro = `# Incidents

<!-- Written by "make claims" from cmd/mandate/testdata/incident: do not edit. -->

What the first lines of the commands are in each incident, for an election *e* (or *f*) with the candidates *a*, *b*, *c*, *d*: each name links the script that
plays it on real servers, and compares these words. *…* stands for any text, *N* for a number. What to do then is in the [runbook](../runbook.md).

| incident | command | what it begins with | next |
|---|---|---|---|
`

// Who changes a script writes the page anew.
func TestIncidentsAreListed(t *testing.T) {
	page := filepath.Join(root, "docs/generated/incidents.md")
	scripts, err := filepath.Glob("testdata/incident/*.txtar")
	if err != nil || len(scripts) < 20 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	var w bytes.Buffer
	w.WriteString(incidentsIntro)
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		must(t, err)
		name := strings.TrimSuffix(filepath.Base(script), ".txtar")
		title := fmt.Sprintf("[%s](../../cmd/mandate/%s)", strings.ReplaceAll(name, "-", " "), script)
		rows := regexp.MustCompile(`(?m)^explain '([^'\n]+)' '?(-|[^'\n]+)'? ((?:status|doctor|ticks) .*)$`).FindAllStringSubmatch(string(text), -1)
		if len(rows) == 0 {
			t.Errorf("%s: no command explains it", script)
		}
		seen := map[string]bool{}
		for _, row := range rows {
			line := fmt.Sprintf(" | `mandate %s` | *%s* | %s |\n", row[3], inWords(row[1]), inWords(row[2]))
			if !seen[line] && row[1] != "ok +a leads" { // as it is once the cause is gone
				fmt.Fprint(&w, "| ", title, line)
			}
			seen[line], title = true, ""
		}
	}
	if *update {
		must(t, os.WriteFile(page, w.Bytes(), 0o600))
	}
	if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, w.Bytes()) {
		t.Errorf("docs/generated/incidents.md is not what the scripts say: make claims (%v)", err)
	}
}

// inWords makes a text of a regular expression, as the scripts have them.
func inWords(expression string) string {
	for _, r := range [][2]string{
		{`^problem \+\((.*)\)(?:\.\*)?$`, "$1"},
		{`^(problem|ok) \+|m\?`, ""},
		{`\(([^()]+)\)\?`, "$1"},
		{`\[[0-9.-]+\]\+?|\\d\+`, "N"},
		{`\[\^.\]\*|\.\*`, "…"},
		{` \+`, " "},
		{`(can|host|leader)\.(t|s)\b`, "$1'$2"},
		{`([ (…])\.(\w)`, "$1'$2"},
		{`(\w)\.( |$)`, "$1'$2"},
		{`\|problem |\|`, "* or *"},
		{`\\`, ""},
		{`^-$`, ""},
	} {
		expression = regexp.MustCompile(r[0]).ReplaceAllString(expression, r[1])
	}
	return expression
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
