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
