package remote

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipeSession is a session of two workers whose connections are pipes, for fake time.
func pipeSession(t *testing.T) (x *Session, worker func(rank int) (net.Conn, *Client)) {
	s := &Server{sessions: make(map[string]*Session), conns: make(map[net.Conn]bool), strange: make(chan struct{}, maxStrangers)}
	x = s.Open(task, nil, newBackend(t, 100))
	return x, func(rank int) (net.Conn, *Client) {
		here, there := net.Pipe()
		s.strange <- struct{}{}
		s.serving.Go(func() {
			s.serve(here)
			here.Close()
		})
		t.Cleanup(func() { there.Close() })
		c := &Client{rank: rank, token: x.token, conn: there, wire: newWire(there)}
		m, err := c.register(hello{Token: x.token, Rank: rank})
		if err != nil || m.Task == nil {
			t.Fatalf("register rank %d: %+v, %v", rank, m, err)
		}
		return there, c
	}
}

// When rank 0's connection closes before it says how it ended, how its process ended says what went wrong, and the others must not end before it. So they get no
// answer until the session ends, which ends them, or for a time.
func TestOthersWaitForTheEndOfARank0ThatIsGone(t *testing.T) {
	t.Run("the session ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x, worker := pipeSession(t)
			conn, first := worker(0)
			_, second := worker(1)
			if _, err := first.Report(t.Context(), 1, nil); err != nil {
				t.Fatal(err)
			}
			waited := make(chan error, 1)
			go func() {
				_, err := second.Report(t.Context(), 2, nil)
				waited <- err
			}()
			synctest.Wait()
			conn.Close()
			time.Sleep(silentEndTimeout / 2)
			synctest.Wait()
			select {
			case err := <-waited:
				t.Fatalf("rank 1 was answered: %v", err)
			default:
			}
			x.Close()
			if err := <-waited; err == nil {
				t.Error("step 2 was answered")
			}
			x.server.serving.Wait()
		})
	})
	t.Run("it does not end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x, worker := pipeSession(t)
			conn, _ := worker(0)
			_, second := worker(1)
			conn.Close()
			time.Sleep(silentEndTimeout / 3)
			start := time.Now()
			_, err := second.Report(t.Context(), 1, nil)
			if want := "rank 0 has ended without a report of step 1"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if got, want := time.Since(start), silentEndTimeout-silentEndTimeout/3; got != want {
				t.Errorf("rank 1 waited for %v, want %v", got, want)
			}
			start = time.Now()
			if _, err := second.Report(t.Context(), 2, nil); err == nil || time.Since(start) != 0 {
				t.Errorf("of the next step: %v after %v, want an error at once", err, time.Since(start))
			}
			x.Close()
			x.server.serving.Wait()
		})
	})
}
