package faultnet

import (
	"context"
	"errors"
	"io"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A killed process's kernel resets its connections once what it wrote has arrived; a host without
// power says nothing.
func TestKillIsHeardOfUnlessSilent(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := New(1)
			a, b := n.Host("a"), n.Host("b")
			ln, err := b.Listen(":7")
			if err != nil {
				t.Fatal(err)
			}
			n.Delay("b", "a", 10*time.Millisecond, 10*time.Millisecond)
			c, err := a.Dial(t.Context(), "b:7")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			s, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			s.Write([]byte("last words"))
			b.Kill(silent)
			if _, err := s.Write([]byte("x")); err == nil {
				t.Error("a killed host could write")
			}
			if _, err := b.Dial(t.Context(), "b:7"); err == nil {
				t.Error("a killed host could dial")
			}
			if _, err := ln.Accept(); err == nil {
				t.Error("a killed host could accept")
			}
			buf := make([]byte, 20)
			if k, err := io.ReadFull(c, buf[:10]); err != nil || string(buf[:k]) != "last words" {
				t.Errorf("silent=%v: got %q and error %v, want what was on its way", silent, buf[:k], err)
			}
			c.SetDeadline(time.Now().Add(time.Hour))
			begin := time.Now()
			_, err = c.Read(buf)
			if waited := time.Since(begin); silent != (waited == time.Hour) || silent == errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("silent=%v: read ended after %v with %v", silent, waited, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begin = time.Now()
			if _, err := a.Dial(ctx, "b:7"); err == nil || silent != (time.Since(begin) == time.Minute) {
				t.Errorf("silent=%v: dial ended after %v with %v", silent, time.Since(begin), err)
			}
			// What takes its place has the same name and address.
			again, err := n.Host("b").Listen(":7")
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			c.SetDeadline(time.Now().Add(time.Hour))
			if _, err := c.Read(buf); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("silent=%v: the old connection, when something listens again: got error %v, want %v", silent, err, syscall.ECONNRESET)
			}
			c2, err := a.Dial(t.Context(), "b:7")
			if err != nil {
				t.Fatal(err)
			}
			c2.Close()
		})
	}
}

func TestAFrozenHostDoesNothingAndForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		b := n.Host("b")
		ln, err := b.Listen(":7")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		c, err := n.Host("a").Dial(t.Context(), "b:7")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		begin := time.Now()
		var read, wrote time.Duration
		done := make(chan bool, 2)
		go func() {
			// This read is under way when the host freezes.
			buf := make([]byte, 1)
			s.Read(buf)
			read = time.Since(begin)
			done <- true
		}()
		synctest.Wait()
		b.Freeze()
		go func() {
			s.Write([]byte("y"))
			wrote = time.Since(begin)
			done <- true
		}()
		c.Write([]byte("x"))
		time.Sleep(5 * time.Second)
		b.Thaw()
		<-done
		<-done
		if read != 5*time.Second || wrote != 5*time.Second {
			t.Errorf("read ended after %v and write after %v, want both at the thaw after 5s", read, wrote)
		}
	})
}

// The sender sees its connection end while the request still arrives.
func TestBreakLetsWhatIsOnItsWayArriveLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		n.Delay(Any, Any, 5*time.Millisecond, 5*time.Millisecond)
		c, s := connect(t, n, "a", "b")
		begin := time.Now()
		c.Write([]byte("do it"))
		n.Break("a", "b", time.Second)
		if _, err := c.Write([]byte("more")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write after the break: got error %v, want %v", err, syscall.ECONNRESET)
		}
		got, err := io.ReadAll(s)
		if string(got) != "do it" || !errors.Is(err, syscall.ECONNRESET) || time.Since(begin) != 1005*time.Millisecond {
			t.Errorf("the listener got %q, %v after %v, want %q and a reset after 1.005s", got, err, time.Since(begin), "do it")
		}
		if k := n.Connections(); k != 0 {
			t.Errorf("got %d connections, want 0", k)
		}
	})
}

func TestRestoreTakesBackTheFaultsOfOneLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		ab, _ := connect(t, n, "a", "b")
		ac, ca := connect(t, n, "a", "c")
		n.Drop("a", "b")
		n.Drop("a", "c")
		n.Restore("a", "b")
		if _, err := ab.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the restored link: got error %v, want %v", err, syscall.ECONNRESET)
		}
		connect(t, n, "a", "b")
		ac.Write([]byte("x"))
		ca.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := ca.Read(make([]byte, 1)); err == nil {
			t.Error("the other link no longer drops")
		}
		n.Heal()
	})
}

// What one connection draws does not change with what others do.
func TestDelaysDependOnTheirConnectionAlone(t *testing.T) {
	times := func(other bool) (at []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			n := New(7)
			n.Delay(Any, Any, 0, time.Second)
			c, s := connect(t, n, "a", "b")
			if other {
				d, _ := connect(t, n, "c", "b")
				d.Write([]byte("x"))
			}
			begin := time.Now()
			go func() {
				for range 20 {
					c.Write([]byte("x"))
					time.Sleep(time.Second)
				}
				c.Close()
			}()
			for {
				if _, err := s.Read(make([]byte, 9)); err != nil {
					return
				}
				at = append(at, time.Since(begin))
			}
		})
		return at
	}
	if alone, together := times(false), times(true); len(alone) < 10 || !slices.Equal(alone, together) {
		t.Errorf("bytes arrived at %v, and at %v beside another connection", alone, together)
	}
}
