package faultnet

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// connect returns both ends of a connection from host a to host b.
func connect(t *testing.T, n *Network, a, b string) (net.Conn, net.Conn) {
	t.Helper()
	ln, err := n.Host(b).Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := n.Host(a).Dial(t.Context(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c, s
}

func TestBytesArriveWholeAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		n.Delay("a", "b", 0, 50*time.Millisecond)
		c, s := connect(t, n, "a", "b")
		want := make([]byte, 3*window+17)
		rand.Read(want)
		go func() {
			for b := want; len(b) > 0; b = b[min(len(b), 70_000):] {
				c.Write(b[:min(len(b), 70_000)])
			}
			c.Close()
		}()
		got, err := io.ReadAll(s)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes, %v, want the same %d", len(got), err, len(want))
		}
	})
}

func TestDeadlinesEndReadsAndWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, New(1), "a", "b")
		start := time.Now()
		c.SetReadDeadline(start.Add(3 * time.Second))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("read: %v after %v, want the deadline after 3s", err, time.Since(start))
		}
		c.SetWriteDeadline(start.Add(5 * time.Second))
		if n, err := c.Write(make([]byte, 2*window)); n != window || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 5*time.Second {
			t.Errorf("write: %d, %v after %v, want %d and the deadline after 5s", n, err, time.Since(start), window)
		}
		c.SetDeadline(time.Time{})
		s.Write([]byte("x"))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Errorf("read without a deadline: %v", err)
		}
	})
}

func TestCutIsNoticedByBothEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		c, s := connect(t, n, "a", "b")
		other, _ := connect(t, n, "a", "c")
		done := make(chan error, 2)
		for _, e := range []net.Conn{c, s} {
			go func() { _, err := e.Read(make([]byte, 1)); done <- err }()
		}
		synctest.Wait()
		n.Cut("b", "a")
		for range 2 {
			if err := <-done; !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("got %v, want a reset", err)
			}
		}
		if _, err := other.Write([]byte("x")); err != nil {
			t.Errorf("another link: %v", err)
		}
	})
}

func TestDroppedBytesVanishInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		c, s := connect(t, n, "a", "b")
		n.Drop("a", "b")
		if k, err := c.Write(make([]byte, 10*window)); k != 10*window || err != nil {
			t.Errorf("write: %d, %v, want to be told that all is well", k, err)
		}
		c.Close()
		s.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v, want silence", err)
		}
		s.SetReadDeadline(time.Time{})
		ln, err := n.Host("b").Listen("b:7000")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		start := time.Now()
		if _, err := n.Host("a").Dial(ctx, "b:7000"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 4*time.Second {
			t.Errorf("dial: %v after %v, want to hang", err, time.Since(start))
		}
		n.Heal()
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read after Heal: %v, want a reset", err)
		}
		if d, err := n.Host("a").Dial(t.Context(), "b:7000"); err != nil {
			t.Errorf("dial after Heal: %v", err)
		} else {
			d.Close()
		}
	})
}

func TestRefusedDialsFailAtOnce(t *testing.T) {
	n := New(1)
	ln, err := n.Host("b").Listen("b:7000")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := n.Host("b").Listen("x:7000"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listen twice: %v", err)
	}
	n.Refuse("a", Any)
	if _, err := n.Host("a").Dial(t.Context(), "b:7000"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v, want it refused", err)
	}
	if c, err := n.Host("c").Dial(t.Context(), "b:7000"); err != nil {
		t.Errorf("another host's dial: %v", err)
	} else {
		c.Close()
	}
	if _, err := n.Host("c").Dial(t.Context(), "b:7001"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial where nobody listens: %v", err)
	}
}

func TestTheSeedDecidesTheFaults(t *testing.T) {
	run := func(seed uint64) (s []string) {
		n := New(seed)
		for range 20 {
			s = append(s, n.Step([]string{"a", "b", "c"}, time.Second))
		}
		return s
	}
	if a, b := run(5), run(5); !slices.Equal(a, b) {
		t.Errorf("two runs of one seed:\n%v\n%v", a, b)
	}
	if slices.Equal(run(5), run(6)) {
		t.Error("two seeds give the same faults")
	}
}
