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
	return pipesOf(t, task)
}

// pipesOf is the same for any task.
func pipesOf(t *testing.T, task Task) (x *Session, worker func(rank int) (net.Conn, *Client)) {
	s := &Server{sessions: make(map[string]*Session), conns: make(map[net.Conn]bool)}
	x = s.Open(task, nil, newBackend(t, 100))
	return x, func(rank int) (net.Conn, *Client) {
		here, there := net.Pipe()
		s.serving.Go(func() {
			s.serve(here)
			here.Close()
		})
		t.Cleanup(func() { there.Close() })
		c := &Client{rank: rank, token: x.token, conn: there, wire: newWire(there)}
		m, err := c.register(hello{Version: version, Token: x.token, Rank: rank})
		if err != nil || m.Task == nil {
			t.Fatalf("register rank %d: %+v, %v", rank, m, err)
		}
		return there, c
	}
}

// When rank 0's connection closes before it says how it ended, how its process ended says what went
// wrong, and the others must not end before it. So they get no answer until the session ends, which
// ends them, or for a time.
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

// The other ranks get the folder that rank 0 has made, whoever comes first, and are not left
// waiting for a rank 0 that ended without it.
func TestOthersGetTheFolderOfRank0(t *testing.T) {
	t.Run("made", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, worker := pipeSession(t)
			_, first := worker(0)
			_, second := worker(1)
			got := make(chan string, 1)
			go func() {
				dir, err := second.Await(t.Context())
				if err != nil {
					t.Error(err)
				}
				got <- dir
			}()
			synctest.Wait()
			if err := first.Ready(t.Context(), "/folder"); err != nil {
				t.Fatal(err)
			}
			if dir := <-got; dir != "/folder" {
				t.Errorf("got %q, want /folder", dir)
			}
			if dir, err := second.Await(t.Context()); dir != "/folder" || err != nil {
				t.Errorf("a second time: got %q, %v, want /folder", dir, err)
			}
		})
	})
	// How the process of a rank 0 that is gone ended says what went wrong. As with reports, the
	// others get no answer before that is known, or for a time.
	t.Run("rank 0 is gone, and the session ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x, worker := pipeSession(t)
			conn, _ := worker(0)
			_, second := worker(1)
			waited := await(t, second)
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
				t.Error("rank 1 got a folder")
			}
			x.server.serving.Wait()
		})
	})
	t.Run("rank 0 is gone, and the session does not end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, worker := pipeSession(t)
			conn, _ := worker(0)
			_, second := worker(1)
			start, waited := time.Now(), await(t, second)
			synctest.Wait()
			conn.Close()
			if err := <-waited; err == nil || !strings.Contains(err.Error(), "rank 0 has ended before it had the folder") || time.Since(start) != silentEndTimeout {
				t.Errorf("got %v after %v, want that rank 0 has ended, after %v", err, time.Since(start), silentEndTimeout)
			}
		})
	})
	// One that says how it ended is not waited for, also if it does not read the answer.
	t.Run("rank 0 says how it ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, worker := pipeSession(t)
			_, first := worker(0)
			_, second := worker(1)
			start, waited := time.Now(), await(t, second)
			synctest.Wait()
			if err := first.wire.send(message{Done: &Done{Error: "no disk"}}); err != nil {
				t.Fatal(err)
			}
			if err := <-waited; err == nil || !strings.Contains(err.Error(), "rank 0 has ended before it had the folder") || time.Since(start) != 0 {
				t.Errorf("got %v after %v, want at once that rank 0 has ended", err, time.Since(start))
			}
		})
	})
	// The first rank of another host is as rank 0 for those there.
	t.Run("the first rank of another host", func(t *testing.T) {
		two := task
		two.Workers, two.PerHost = 4, 2
		for _, says := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				x, worker := pipesOf(t, two)
				worker(0)
				conn, third := worker(2)
				_, fourth := worker(3)
				start, waited := time.Now(), await(t, fourth)
				synctest.Wait()
				want := silentEndTimeout
				if says {
					want = 0
					if err := third.wire.send(message{Done: &Done{Error: "no disk"}}); err != nil {
						t.Fatal(err)
					}
				} else {
					conn.Close()
				}
				if err := <-waited; err == nil || !strings.Contains(err.Error(), "rank 2 has ended before it had the folder") || time.Since(start) != want {
					t.Errorf("rank 2 says how it ended: %t: got %v after %v, want that it has ended, after %v", says, err, time.Since(start), want)
				}
				x.Close()
			})
		}
	})
}

// The first rank on a host learns when the others there have ended, however they did. Those of
// other hosts do not matter.
func TestTheFirstRankOnAHostWaitsForTheOthersThere(t *testing.T) {
	two := task
	two.Workers, two.PerHost = 4, 2
	synctest.Test(t, func(t *testing.T) {
		x, worker := pipesOf(t, two)
		_, first := worker(0)
		_, third := worker(2)
		if err := first.Others(t.Context()); err != nil {
			t.Errorf("before another one has connected: %v", err)
		}
		_, second := worker(1)
		conn, _ := worker(3)
		for _, tc := range []struct {
			leader *Client
			end    func() error
		}{{first, func() error { return second.Done(t.Context(), Done{}) }}, {third, conn.Close}} {
			waited := make(chan error, 1)
			go func() { waited <- tc.leader.Others(t.Context()) }()
			time.Sleep(time.Hour)
			synctest.Wait()
			select {
			case err := <-waited:
				t.Errorf("a first rank was answered while the other one was there: %v", err)
			default:
			}
			if err := tc.end(); err != nil {
				t.Error(err)
			}
			if err := <-waited; err != nil {
				t.Errorf("after the other one has ended: %v", err)
			}
		}
		x.Close()
		if err := first.Others(t.Context()); err == nil {
			t.Error("after the trial: got no error")
		}
		x.server.serving.Wait()
	})
}

// A rank that waits for the report of a first rank whose command has ended is told so: the first
// one waits for its end.
func TestTheFirstRankThatWaitsForOthersReportsNoMore(t *testing.T) {
	two := task
	two.Workers, two.PerHost = 2, 2
	synctest.Test(t, func(t *testing.T) {
		x, worker := pipesOf(t, two)
		_, first := worker(0)
		_, second := worker(1)
		reported := make(chan error, 1)
		go func() {
			_, err := second.Report(t.Context(), 1, nil)
			reported <- err
		}()
		synctest.Wait()
		start, waited := time.Now(), make(chan error, 1)
		go func() { waited <- first.Others(t.Context()) }()
		if err := <-reported; err == nil || !strings.Contains(err.Error(), "rank 0 has ended without a report of step 1") || time.Since(start) != 0 {
			t.Errorf("the second rank's report: got %v after %v, want at once that rank 0 has ended", err, time.Since(start))
		}
		if err := second.Done(t.Context(), Done{}); err != nil {
			t.Error(err)
		}
		if err := <-waited; err != nil {
			t.Errorf("the first rank: %v", err)
		}
		x.Close()
		x.server.serving.Wait()
	})
}

// await is a client's Await, and how it ends.
func await(t *testing.T, c *Client) (ended chan error) {
	ended = make(chan error, 1)
	go func() {
		_, err := c.Await(t.Context())
		ended <- err
	}()
	return ended
}
