//go:build unix

package servertest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// MariaDB makes a new, empty MariaDB, starts it, and returns its DSN as the
// go-sql-driver wants it.
func MariaDB(t testing.TB) (dsn string) {
	t.Helper()
	install, err := exec.LookPath("mariadb-install-db")
	if err != nil {
		missing(t, "MariaDB", "MANDATE_TEST_REQUIRE_MARIADB", "apt-get install mariadb-server-core mariadb-client-core")
	}
	// Debian keeps it off the PATH of those who are not root.
	binary, err := exec.LookPath("mariadbd")
	if err != nil {
		binary = "/usr/sbin/mariadbd"
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	// No configuration file: the machine's own is for another server. The user
	// counts only when we are root; its package's one need not exist.
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
