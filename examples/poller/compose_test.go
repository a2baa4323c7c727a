//go:build unix

package main

import (
	"bytes"
	"context"
	"database/sql"
	"debug/elf"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// composeFile is what the test reads of docker-compose.yml.
type composeFile struct {
	Services map[string]struct {
		Image         string
		ContainerName string `yaml:"container_name"`
		Command       []string
		Environment   map[string]string
		Build         struct{ Context, Dockerfile string }
		Deploy        struct{ Replicas int }
		Healthcheck   struct{ Test []string }
	}
}

// Where there is no Docker engine the file is played with local servers: the same
// commands, environments and health checks, and the binaries built as the
// Dockerfile does; only names and ports are others.
func TestComposeReal(t *testing.T) {
	raw, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file composeFile
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	redis := 0
	for name, s := range file.Services {
		if _, tag, ok := strings.Cut(s.Image, ":"); !ok || tag == "latest" || s.ContainerName != "" {
			t.Errorf("%s: image %q, container name %q: want an image with a tag, and no fixed name", name, s.Image, s.ContainerName)
		}
		if len(s.Healthcheck.Test) == 0 && name != "producer" {
			t.Errorf("%s has no health check", name)
		}
		if strings.HasPrefix(s.Image, "redis:") {
			redis++
		}
	}
	if redis != 3 || file.Services["worker"].Deploy.Replicas != 3 || file.Services["worker"].Build.Context != "." {
		t.Fatalf("%d redis, worker %+v: want 3, and 3 workers built here", redis, file.Services["worker"])
	}
	d := &deployment{t: t, file: file, bin: buildAsDockerfile(t, file.Services["worker"].Build.Dockerfile)}
	d.startServers()
	d.startWorkers()
	d.playAndVerify()
}

// buildAsDockerfile runs the Dockerfile's own go build.
func buildAsDockerfile(t *testing.T, dockerfile string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../..", dockerfile))
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for line := range strings.Lines(string(b)) {
		command, ok := strings.CutPrefix(line, "RUN ")
		if !ok || !strings.Contains(command, "go build") {
			continue
		}
		sh := exec.Command("sh", "-c", strings.ReplaceAll(command, "/out/", bin+"/"))
		sh.Dir = "../.."
		if out, err := sh.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	for _, name := range []string{"poller", "mandate"} {
		f, err := elf.Open(filepath.Join(bin, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			t.Errorf("%s is not static: it would not start in an empty image", name)
		}
	}
	return bin
}

// deployment is the composition on this machine.
type deployment struct {
	t    *testing.T
	file composeFile
	bin  string
	here []string // pairs: what the file calls it, what it is here
	urls []string
	crew *crew
}

func (d *deployment) startServers() {
	d.t.Helper()
	for _, name := range []string{"redis-a", "redis-b", "redis-c"} {
		s := d.file.Services[name]
		addr := servertest.Redis(d.t, s.Command[1:]...).Addr()
		d.here = append(d.here, name+":6379", addr)
		d.urls = append(d.urls, "redis://"+addr)
		_, port, _ := strings.Cut(addr, ":")
		d.healthy(name, withPort(s.Healthcheck.Test[1:], port))
	}
	s := d.file.Services["postgres"]
	admin := servertest.Postgres(d.t)
	u, err := url.Parse(admin)
	if err != nil {
		d.t.Fatal(err)
	}
	d.here = append(d.here, "postgres:5432", u.Host)
	db, err := sql.Open("pgx", admin)
	if err != nil {
		d.t.Fatal(err)
	}
	defer db.Close()
	for _, query := range []string{ // what the image does at its first start
		"CREATE ROLE " + s.Environment["POSTGRES_USER"] + " LOGIN",
		"CREATE DATABASE " + s.Environment["POSTGRES_DB"] + " OWNER " + s.Environment["POSTGRES_USER"],
	} {
		if _, err := db.ExecContext(d.t.Context(), query); err != nil {
			d.t.Fatalf("%s: %v", query, err)
		}
	}
	d.healthy("postgres", withPort(s.Healthcheck.Test[1:], u.Port()))
}

// withPort is for redis-cli, whose options come before its command, and pg_isready.
func withPort(command []string, port string) []string {
	return slices.Insert(slices.Clone(command), 1, "-p", port)
}

// healthy runs a health check until it passes.
func (d *deployment) healthy(service string, command []string) {
	d.t.Helper()
	for limit := time.Now().Add(waitLimit); ; time.Sleep(100 * time.Millisecond) {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(limit) {
			d.crew.logs()
			d.t.Fatalf("%s is not healthy: %q: %v\n%s", service, command, err, out)
		}
	}
}

func (d *deployment) startWorkers() {
	d.t.Helper()
	quorum, err := elector.Open(d.urls...)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { quorum.Close() })
	d.crew = &crew{t: d.t, dir: d.t.TempDir(), urls: d.urls, quorum: quorum, procs: map[string]*process{}, self: filepath.Join(d.bin, "poller")}
	d.t.Cleanup(d.crew.endAll)
	d.crew.env = d.environment("worker")
	for i := range d.file.Services["worker"].Deploy.Replicas {
		s := d.file.Services["worker"]
		addr := fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(d.t))
		local := strings.NewReplacer("127.0.0.1:8080", addr, ":8080", addr, "/poller", d.crew.self)
		name := fmt.Sprint("worker-", i+1)
		// A container has a host name of its own, which names the worker.
		d.crew.start(name, append(replaceAll(local, s.Command), "--id", name)...)
		d.healthy(name, replaceAll(local, s.Healthcheck.Test[1:]))
	}
	d.crew.start("producer", d.file.Services["producer"].Command...)
}

// environment is a service's, with the names of here.
func (d *deployment) environment(service string) (env []string) {
	local := strings.NewReplacer(d.here...)
	for k, v := range d.file.Services[service].Environment {
		env = append(env, k+"="+local.Replace(v))
	}
	return env
}

func replaceAll(r *strings.Replacer, args []string) (all []string) {
	for _, a := range args {
		all = append(all, r.Replace(a))
	}
	return all
}

// playAndVerify kills the leader, waits for the next, and asks as the comments
// of the file tell people to.
func (d *deployment) playAndVerify() {
	d.t.Helper()
	leader := d.crew.leaderAfter(0)
	time.Sleep(2 * time.Second)
	p := d.crew.procs[leader.Candidate]
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
	next := d.crew.leaderAfter(leader.Token)
	d.crew.start(leader.Candidate, p.args...)
	time.Sleep(2 * time.Second)
	for _, args := range [][]string{{"mandate", "status", "poller"}, {"poller", "verify", "--wait", waitLimit.String()}} {
		ctx, cancel := context.WithTimeout(d.t.Context(), 2*waitLimit)
		cmd := exec.CommandContext(ctx, filepath.Join(d.bin, args[0]), args[1:]...)
		cmd.Env = append(os.Environ(), d.crew.env...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		cancel()
		if err != nil || !strings.Contains(out.String(), next.Candidate) {
			d.crew.logs()
			d.t.Errorf("%q: %v", args, err)
		}
		d.t.Logf("%s\n%s", strings.Join(args, " "), &out)
	}
	for name := range d.crew.procs {
		d.crew.end(name)
	}
}
