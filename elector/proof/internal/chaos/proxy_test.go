//go:build linux

package chaos

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"
)

// echo answers each line with the same line, and tells what it was asked.
func echo(t *testing.T) (addr string, asked chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	asked = make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					asked <- lines.Text()
					fmt.Fprintln(c, lines.Text())
				}
			}()
		}
	}()
	return l.Addr().String(), asked
}

// The faults are faults: a proxy that lets everything pass would prove nothing.
func TestChaosProxy(t *testing.T) {
	addr, asked := echo(t)
	p, err := NewProxy(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	// What should come may take its time on a busy machine; for what should not, half a second
	// is enough to see that it does.
	const nothing = 500 * time.Millisecond
	ask := func(w Weather, answer, arrival time.Duration) (answered, arrived bool, took time.Duration) {
		p.Set(Weather{})
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		in := bufio.NewReader(c)
		fmt.Fprintln(c, "first") // the connection stands when the weather turns
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		<-asked
		p.Set(w)
		began := time.Now()
		_, _ = fmt.Fprintln(c, "second")
		_ = c.SetReadDeadline(began.Add(answer))
		_, err = in.ReadString('\n')
		took = time.Since(began)
		select {
		case <-asked:
			arrived = true
		case <-time.After(arrival):
		}
		return err == nil, arrived, took
	}
	for _, tc := range []struct {
		name              string
		w                 Weather
		answered, arrived bool
		least             time.Duration
	}{
		{"fine", Weather{}, true, true, 0},
		{"slow", Weather{Delay: 50 * time.Millisecond}, true, true, 100 * time.Millisecond},
		{"cut", Weather{Cut: true}, false, false, 0},
		{"requests vanish", Weather{HoleUp: true}, false, false, 500 * time.Millisecond},
		{"answers vanish", Weather{HoleDown: true}, false, true, 500 * time.Millisecond},
	} {
		within := map[bool]time.Duration{true: maxWait, false: nothing}
		answered, arrived, took := ask(tc.w, within[tc.answered], within[tc.arrived])
		if answered != tc.answered || arrived != tc.arrived || took < tc.least {
			t.Errorf("%s: answered %v, arrived %v, after %v", tc.name, answered, arrived, took)
		}
	}
}
