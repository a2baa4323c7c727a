package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// Postgres creates a new, empty PostgreSQL cluster, starts it, and returns its URL.
// PostgreSQL refuses to run as root: if the test is run by root, the server runs as the user
// postgres, which the PostgreSQL package creates.
func Postgres(t testing.TB) (url string) {
	t.Helper()
	bin := postgresBin()
	if bin == "" {
		missing(t, "PostgreSQL", "MANDATE_TEST_REQUIRE_POSTGRES", "apt-get install postgresql")
	}
	dir, attr := asPostgres(t)
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "mandate", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, attr
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := FreePort(t)
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off")
	server.Dir, server.SysProcAttr = dir, attr
	p := launch(t, server, "database system is ready to accept connections")
	t.Cleanup(func() { p.end(os.Interrupt) })
	return fmt.Sprintf("postgres://mandate@127.0.0.1:%d/postgres?sslmode=disable", port)
}

// postgresBin returns the directory of the newest PostgreSQL's programs; "": there is none. On
// Debian they are not in the PATH.
func postgresBin() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(all, func(a, b string) int { return len(a) - len(b) }) // 9 before 17
	if len(all) == 0 {
		return ""
	}
	return filepath.Dir(all[len(all)-1])
}

// asPostgres returns the server's directory, and the user to run it as: nil for the test's own
// user, or the user postgres if the test is run by root.
func asPostgres(t testing.TB) (string, *syscall.SysProcAttr) {
	t.Helper()
	// Not t.TempDir: its parent is closed to other users.
	dir, err := os.MkdirTemp("", "mandate-postgres-") //nolint:usetesting // see above
	Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Geteuid() != 0 {
		return dir, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		t.Fatalf("PostgreSQL does not run as root, and there is no user postgres: %v", err)
	}
	uid, _ := strconv.ParseUint(who.Uid, 10, 32)
	gid, _ := strconv.ParseUint(who.Gid, 10, 32)
	Must(t, os.Chown(dir, int(uid), int(gid)))
	return dir, as(uint32(uid), uint32(gid))
}

// MariaDB creates a new, empty MariaDB, starts it, and returns its DSN in the format of
// go-sql-driver.
func MariaDB(t testing.TB) (dsn string) {
	t.Helper()
	install, err := exec.LookPath("mariadb-install-db")
	if err != nil {
		missing(t, "MariaDB", "MANDATE_TEST_REQUIRE_MARIADB", "apt-get install mariadb-server-core mariadb-client-core")
	}
	// On Debian mariadbd is not in the PATH of users other than root.
	binary, err := exec.LookPath("mariadbd")
	if err != nil {
		binary = "/usr/sbin/mariadbd"
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	// No defaults: the machine's configuration file is for another server. The user matters only
	// if the test runs as root, and the package's user mysql may not exist.
	common := []string{"--no-defaults", "--user=root", "--datadir=" + data, "--skip-name-resolve"}
	setup := exec.Command(install, append(common, "--auth-root-authentication-method=normal", "--skip-test-db")...)
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	port := strconv.Itoa(FreePort(t))
	p := launch(t, exec.Command(binary, append(common, "--port="+port, "--bind-address=127.0.0.1", "--skip-networking=0", "--skip-grant-tables",
		"--socket="+filepath.Join(dir, "sock"), "--pid-file="+filepath.Join(dir, "pid"),
		"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=16M")...), "ready for connections")
	t.Cleanup(func() { p.end(syscall.SIGTERM) })
	return fmt.Sprintf("root@tcp(127.0.0.1:%s)/mysql", port)
}
