package main

import (
	"net"
	"os"
	"strconv"
	"time"
)

// systemd returns a function that tells systemd that this process campaigns (Type=notify), and then, if
// the unit has a WatchdogSec, again and again that it runs, as long as state returns, which systemctl status
// shows. Commands do not inherit the variables for that, nor those of its sockets: they are for this process.
func (k *candidate) systemd() (campaigns func()) {
	socket := &net.UnixAddr{Name: os.Getenv("NOTIFY_SOCKET"), Net: "unixgram"}
	watchdog, _ := strconv.Atoi(os.Getenv("WATCHDOG_USEC"))
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "LISTEN_PIDFDID"} {
		_ = os.Unsetenv(name)
	}
	return func() {
		if socket.Name == "" {
			return
		}
		conn, err := net.DialUnix(socket.Net, nil, socket)
		if err == nil {
			_, err = conn.Write([]byte("READY=1"))
		}
		if err != nil {
			k.log.Warn("cannot notify systemd", "error", err)
			return
		}
		every := 5 * time.Second
		if watchdog > 0 {
			every = min(every, time.Duration(watchdog)*time.Microsecond/3)
		}
		for ; ; time.Sleep(every) {
			_, _ = conn.Write([]byte("WATCHDOG=1\nSTATUS=" + k.state()))
		}
	}
}
