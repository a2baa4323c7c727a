package compare

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

var (
	mandate  = flag.String("mandate", "", "path of the command; without it nothing is measured")
	revision = flag.String("revision", "", "of this repository, for the page")
	rounds   = flag.Int("rounds", 3, "how often each cell is measured")
	some     = flag.String("systems", ".", "regexp of the systems; the controls always take part")
	rows     = flag.String("faults", ".", "regexp of the faults")
	out      = flag.String("out", os.DevNull, "file for the table, which is printed, too")
)

// lease is that of every system.
const lease = 3 * time.Second

func TestMain(m *testing.M) {
	if spec := os.Getenv(envCandidate); spec != "" {
		campaign(spec)
		return
	}
	os.Exit(m.Run())
}

// table collects the results, by fault and system.
type table struct {
	mu       sync.Mutex
	results  map[string][]result
	cells    int
	repeated int
}

func TestCompare(t *testing.T) {
	if *mandate == "" {
		t.Skip("make compare measures")
	}
	systems = slices.DeleteFunc(systems, func(s System) bool {
		_, err := exec.LookPath(s.Program)
		control := s.Name == always || s.Name == kernel
		return s.Program != "" && err != nil || !control && !regexp.MustCompile(*some).MatchString(s.Name)
	})
	faults = slices.DeleteFunc(faults, func(f fault) bool { return !regexp.MustCompile(*rows).MatchString(f.name) })
	tab := &table{results: map[string][]result{}}
	t.Run("cells", tab.measure)
	page := tab.page(t)
	if fmt.Print(page); !t.Failed() {
		check(os.WriteFile(*out, []byte(page), 0o644))
	}
}

// measure fills the table, in random order, so that no column has the busy half of the time.
func (tab *table) measure(t *testing.T) {
	for range *rounds {
		for _, i := range rand.Perm(len(faults)) {
			for _, j := range rand.Perm(len(systems)) {
				if f, s := faults[i], systems[j]; f.fits(s) {
					t.Run("", func(t *testing.T) {
						t.Parallel()
						tab.fill(t, s, f)
					})
				}
			}
		}
	}
}

// fill measures a cell, and again if the machine was too busy for it. A control that fails is an error.
func (tab *table) fill(t *testing.T, s System, f fault) {
	r, tries := result{worthless: true}, 0
	for ; r.worthless; tries++ {
		if tries == 10 {
			t.Fatalf("%s, %s: the machine is too busy", s.Name, f.name)
		}
		t.Run("", func(t *testing.T) { r = (&cell{t: t, system: s}).meet(f) })
		log.Printf("%s, %s: %+v", s.Name, f.name, r)
	}
	if s.Name == always && r.two < 3*lease || s.Name == kernel && r.two > 0 {
		t.Errorf("control %s, fault %s: two leaders for %v", s.Name, f.name, r.two)
	}
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.cells++
	tab.repeated += tries - 1
	tab.results[s.Name+f.name] = append(tab.results[s.Name+f.name], r)
}

const head = `<!-- Made by make compare. -->

# What happens when something fails, measured

%s, mandate %s, lease L = %v. %d cells in %d rounds; %d were measured again: a write was over %v late, or nobody led before the fault.
%d processors, load average at the end %s; %s, %s.

A cell: how long nobody led in the 4 leases after the fault, median (worst); then, where it is not zero, the worst of **2×**, how long two led by their own word, and
**fence**, writes of a superseded leader that a check of the token accepted / of the newest that it refused; **nobody**: in how many rounds nobody led at the end.
What is below 50 ms is the machine's. How to read it: [compare.md](../compare.md).

`

func (tab *table) page(t *testing.T) string {
	b := &strings.Builder{}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(b, head, time.Now().UTC().Format(time.DateOnly), *revision, lease, tab.cells, *rounds, tab.repeated, late,
		runtime.NumCPU(), strings.Fields(string(load))[0], runtime.Version(), servertest.Version(t))
	fmt.Fprint(b, "| fault |")
	for _, s := range systems {
		fmt.Fprintf(b, " %s |", s.Name)
	}
	fmt.Fprintf(b, "\n|---|%s\n", strings.Repeat("---|", len(systems)))
	for _, f := range faults {
		fmt.Fprintf(b, "| %s |", f.what)
		for _, s := range systems {
			fmt.Fprintf(b, " %s |", text(tab.results[s.Name+f.name]))
		}
		fmt.Fprintln(b)
	}
	fmt.Fprint(b, "\n| system | version | configuration |\n|---|---|---|\n")
	requirements, err := os.ReadFile("go.mod")
	check(err)
	for _, s := range systems {
		version := regexp.MustCompile(`\t` + s.Module + ` (v.*)|$`).FindStringSubmatch(string(requirements))[1]
		if s.Program != "" {
			out, _ := exec.Command(s.Program, "--version").Output()
			version += "; server " + strings.Fields(string(out) + " ? ? ?")[2]
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", s.Name, version, s.Setup)
	}
	return b.String()
}

// text is a cell of the page.
func text(all []result) string {
	if len(all) == 0 {
		return ""
	}
	slices.SortFunc(all, func(a, b result) int { return int(a.none - b.none) })
	s, worst := short(all[len(all)/2].none), short(all[len(all)-1].none)
	if worst != s {
		s += " (" + worst + ")"
	}
	var two time.Duration
	var accepted, refused, vacant int
	for _, r := range all {
		two, accepted, refused = max(two, r.two), max(accepted, r.accepted), max(refused, r.refused)
		if r.vacant {
			vacant++
		}
	}
	note := func(there bool, format string, args ...any) {
		if there {
			s += fmt.Sprintf("<br>"+format, args...)
		}
	}
	note(two > 0, "**2×** %s", short(two))
	note(accepted+refused > 0, "**fence** %d / %d", accepted, refused)
	note(vacant > 0, "**nobody** %d of %d", vacant, len(all))
	return s
}

func short(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
