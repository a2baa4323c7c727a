package compare

import (
	"cmp"
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
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

var (
	mandate  = flag.String("mandate", "", "path of the command; without it nothing is measured")
	revision = flag.String("revision", "", "of this repository, for the page")
	rounds   = flag.Int("rounds", 5, "how often each cell is measured")
	some     = flag.String("systems", ".", "regexp of the systems; the controls always take part")
	rows     = flag.String("faults", ".", "regexp of the faults")
	out      = flag.String("out", "", "file for the table, which is printed, too")
)

// lease is that of every system.
const lease = 3 * time.Second

// A page is measured on a machine that does nothing else. These are load averages of a minute for each processor: the
// most before the first cell, and the most after any.
const idle, busy = 0.5, 4

func TestMain(m *testing.M) {
	if spec := os.Getenv(envCandidate); spec != "" {
		campaign(spec)
		return
	}
	if addr := os.Getenv(envAPI); addr != "" {
		serveLease(addr)
	}
	flag.Parse()
	isolate()
	os.Exit(m.Run())
}

// envNetwork is set where packets may be dropped.
const envNetwork = "COMPARE_NETWORK"

// isolate runs this program again in a network of its own, in which nft may drop packets, and without PostgreSQL's shared
// memory on the machine. It returns in that one, or if no such network is available.
func isolate() {
	_, err := exec.LookPath("nft")
	_, noIP := exec.LookPath("ip")
	if os.Getenv(envNetwork) != "" {
		check(exec.Command("ip", "link", "set", "lo", "up").Run())
		nft("add table compare")
		return
	}
	const netAdmin = 12 // CAP_NET_ADMIN
	self := exec.Command("/proc/self/exe", os.Args[1:]...)
	self.Env = append(os.Environ(), envNetwork+"=1")
	self.Stdout, self.Stderr = os.Stdout, os.Stderr
	self.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC, Pdeathsig: syscall.SIGKILL}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		self.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		self.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		self.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		self.SysProcAttr.AmbientCaps = []uintptr{netAdmin}
	}
	if err = cmp.Or(err, noIP); err == nil {
		err = self.Start()
	}
	if err != nil {
		log.Printf("no packets can be dropped: %v", err)
		return
	}
	_ = self.Wait()
	os.Exit(self.ProcessState.ExitCode())
}

// table collects the results, by fault and system.
type table struct {
	mu       sync.Mutex
	results  map[string][]result
	cells    int
	repeated int
	load     float64 // the highest after a cell
}

func TestCompare(t *testing.T) {
	if *mandate == "" {
		t.Skip("make compare measures")
	}
	servertest.NeedRedis(t)
	systems = slices.DeleteFunc(systems, func(s System) bool {
		if s.Name != always && s.Name != kernel && !regexp.MustCompile(*some).MatchString(s.Name) {
			return true
		}
		if _, err := exec.LookPath(s.Program); s.Program == "" || err == nil {
			return false
		}
		if *out != "" {
			t.Fatalf("%s is not on PATH: the page would lack the column %s", s.Program, s.Name)
		}
		log.Printf("SKIPPED: %s, for %s is not on PATH", s.Name, s.Program)
		return true
	})
	faults = slices.DeleteFunc(faults, func(f fault) bool {
		if !regexp.MustCompile(*rows).MatchString(f.Name) {
			return true
		}
		if !f.packets || os.Getenv(envNetwork) != "" {
			return false
		}
		if *out != "" {
			t.Fatalf("nft and a network of its own are missing: the page would lack the row %s", f.Name)
		}
		log.Printf("SKIPPED: %s, for no packets can be dropped", f.What)
		return true
	})
	if *out != "" {
		what := fmt.Sprintf("a load average below %.1f for each processor, as a page needs: end what else runs here", idle)
		servertest.Poll(t, time.Second, 5*time.Minute, what, func() bool { return load() < idle })
	}
	newCluster = sync.OnceValue(func() string { return initdb(folder(t) + "/postgres") })
	tab := &table{results: map[string][]result{}}
	t.Run("cells", tab.measure)
	page := tab.page(t)
	if fmt.Print(page); *out == "" || t.Failed() {
		return
	}
	if tab.load > busy {
		t.Fatalf("no page: the load average rose to %.1f for each processor, above %d", tab.load, busy)
	}
	check(os.WriteFile(*out, []byte(page), 0o644))
}

// load returns the load average of the last minute for each processor.
func load() (average float64) {
	must(fmt.Sscan(string(must(os.ReadFile("/proc/loadavg"))), &average))
	return average / float64(runtime.NumCPU())
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
			t.Fatalf("%s, %s: the machine is too busy", s.Name, f.Name)
		}
		t.Run("", func(t *testing.T) { r = (&cell{t: t, system: s}).meet(f) })
		log.Printf("%s, %s: %+v", s.Name, f.Name, r)
	}
	if s.Name == always && r.two < 3*lease || s.Name == kernel && r.two > 0 {
		t.Errorf("control %s, fault %s: two leaders for %v", s.Name, f.Name, r.two)
	}
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.cells++
	tab.repeated += tries - 1
	tab.load = max(tab.load, load())
	tab.results[s.Name+f.Name] = append(tab.results[s.Name+f.Name], r)
}

func (tab *table) page(t *testing.T) string {
	requirements := string(must(os.ReadFile("go.mod")))
	page := template.New("page.tmpl").Funcs(template.FuncMap{
		"module": func(path string) string {
			return regexp.MustCompile(`\t` + path + ` (v.*)`).FindStringSubmatch(requirements)[1]
		},
		"server": func(program string) string {
			out, _ := exec.Command(program, "--version").Output()
			return strings.Fields(string(out) + " ? ? ?")[2]
		},
	})
	b := &strings.Builder{}
	check(template.Must(page.ParseFiles("page.tmpl")).Execute(b, map[string]any{
		"Date": time.Now().UTC().Format(time.DateOnly), "Revision": *revision, "Lease": lease, "Late": late,
		"Cells": tab.cells, "Rounds": *rounds, "Repeated": tab.repeated, "Tables": []part{newPart(false), newPart(true)}, "Text": tab.text,
		"Processors": runtime.NumCPU(), "Load": fmt.Sprintf("%.1f", tab.load), "Go": runtime.Version(), "Redis": servertest.Version(t),
	}))
	return b.String()
}

// part is a table of the page.
type part struct {
	Faults  []fault
	Systems []System
}

// newPart returns the table of the systems that Sentinel watches, or of all others, with the controls.
func newPart(sentinel bool) part {
	return part{
		Faults: slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return !f.fits(System{Sentinel: sentinel, Nodes: 3}) }),
		Systems: slices.DeleteFunc(slices.Clone(systems), func(s System) bool {
			return s.Sentinel != sentinel && s.Name != always && s.Name != kernel
		}),
	}
}

// text is a cell of the page.
func (tab *table) text(s System, f fault) string {
	all := tab.results[s.Name+f.Name]
	if len(all) == 0 {
		return ""
	}
	slices.SortFunc(all, func(a, b result) int { return int(a.none - b.none) })
	cell, least, most := short(all[len(all)/2].none), short(all[0].none), short(all[len(all)-1].none)
	if least != most {
		cell += fmt.Sprintf(" (%s to %s)", least, most)
	}
	var worst result
	times := map[string]int{}
	for _, r := range all {
		worst.two = max(worst.two, r.two)
		worst.accepted, worst.refused = max(worst.accepted, r.accepted), max(worst.refused, r.refused)
		if r.two > 0 {
			times["2×"]++
		}
		if r.accepted+r.refused > 0 {
			times["fence"]++
		}
		if r.vacant {
			times["nobody"]++
		}
	}
	note := func(what, size string) {
		if times[what] > 0 {
			cell += fmt.Sprintf("<br>**%s** %sin %d of %d", what, size, times[what], len(all))
		}
	}
	note("2×", short(worst.two)+" ")
	note("fence", fmt.Sprintf("%d / %d ", worst.accepted, worst.refused))
	note("nobody", "")
	return cell
}

func short(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
