package netlab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test program is also the program that runs in the namespaces: "echo" sends back what it gets,
// "ask ADDRESS" sends a line after each line of its input and says what came back.
func TestMain(m *testing.M) {
	switch role := os.Getenv("NETLAB_ROLE"); role {
	case "":
		os.Exit(m.Run())
	case "echo":
		ln, err := net.Listen("tcp", ":7000")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("ready")
		for {
			c, err := ln.Accept()
			if err != nil {
				os.Exit(1)
			}
			go io.Copy(c, c)
		}
	default:
		c, err := net.Dial("tcp", strings.TrimPrefix(role, "ask "))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("ready")
		in, back := bufio.NewScanner(os.Stdin), bufio.NewReader(c)
		for in.Scan() {
			begin := time.Now()
			// A reset that came before is told here, once. Reads then find the end.
			_, err := fmt.Fprintf(c, "%s\n", in.Text())
			line := ""
			if err == nil {
				line, err = back.ReadString('\n')
			}
			switch {
			case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
				fmt.Println("reset")
			case err != nil || line != in.Text()+"\n":
				fmt.Println("got", line, err)
			default:
				fmt.Println(time.Since(begin).Milliseconds())
			}
		}
	}
}

func newLab(t *testing.T, hosts ...string) *Lab {
	t.Helper()
	lab, err := New(1, hosts...)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

// start runs the test program in a role; the function sends it a line, and returns what it says.
func start(t *testing.T, lab *Lab, host, role string) func(line string) string {
	t.Helper()
	cmd := lab.Command(t.Context(), host, os.Args[0])
	cmd.Env = append(os.Environ(), "NETLAB_ROLE="+role)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewReader(out)
	read := func() string {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v", role, err)
		}
		return strings.TrimSpace(line)
	}
	if line := read(); line != "ready" {
		t.Fatalf("%s: got %q, want ready", role, line)
	}
	return func(line string) string {
		fmt.Fprintln(in, line)
		return read()
	}
}

// Links delay, lose and double packets, and TCP brings all through; a link that resets ends
// connections.
func TestLinksDelayLoseDoubleAndReset(t *testing.T) {
	lab := newLab(t, "a", "b")
	start(t, lab, "b", "echo")
	ask := start(t, lab, "a", "ask "+lab.Address("b")+":7000")
	millis := func() (n int) {
		line := ask("hello")
		if _, err := fmt.Sscan(line, &n); err != nil {
			t.Fatalf("got %q, want a number of milliseconds", line)
		}
		return n
	}
	millis()
	lab.Set("a", "b", Link{Delay: 60 * time.Millisecond})
	lab.Set(Any, "a", Link{Delay: 40 * time.Millisecond})
	if n := millis(); n < 100 || n > 1000 {
		t.Errorf("there and back over links of 60 and 40 ms took %d ms", n)
	}
	lab.Clear()
	lab.Set(Any, Any, Link{Loss: 0.1, Duplicate: 0.3})
	for range 30 {
		millis()
	}
	if s := lab.Stats(); s.Lost == 0 || s.Doubled == 0 {
		t.Errorf("got %+v, want packets lost and doubled", s)
	}
	lab.Clear()
	lab.Set("a", "b", Link{Reset: true})
	if got := ask("hello"); got != "reset" {
		t.Errorf("over a link that resets: got %q, want a reset", got)
	}
}

// Packets from one host keep their order, whatever their delays.
func TestQueueKeepsOrder(t *testing.T) {
	q := newQueue()
	r, w := io.Pipe()
	go q.write(w)
	for i, late := range []time.Duration{30, 1, 20, 0} {
		q.put("a", []byte{byte(i)}, late*time.Millisecond)
	}
	q.put("b", []byte{9}, 0)
	var got []byte
	buf := make([]byte, 1)
	for range 5 {
		if _, err := r.Read(buf); err != nil {
			t.Fatal(err)
		}
		got = append(got, buf[0])
	}
	q.close()
	if !slices.Equal(got, []byte{9, 0, 1, 2, 3}) {
		t.Errorf("got %v, want b's packet first and a's in order", got)
	}
}
