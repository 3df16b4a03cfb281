package resume

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// A cutConn breaks once so many bytes have been written to it and read from it.
type cutConn struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (c *cutConn) take(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, c.left)
	c.left -= n
	return n
}

func (c *cutConn) Write(p []byte) (int, error) {
	n := c.take(len(p))
	m, err := c.Conn.Write(p[:n])
	if err == nil && n < len(p) {
		c.Conn.Close()
		err = errors.New("cut")
	}
	return m, err
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:min(len(p), 7)])
	if m := c.take(n); m < n {
		c.Conn.Close()
		return m, errors.New("cut")
	}
	return n, err
}

// A conversation over connections that break after n bytes each, for every n that lets something
// through, is the same.
func TestConversationSurvivesEveryCut(t *testing.T) {
	question, answer := strings.Repeat("question ", 5), strings.Repeat("answer ", 7)
	// With less than two heads, no connection brings more than the first frames. The whole
	// conversation has some 300 bytes.
	for n := 2 * headSize; n < 400; n += 1 + n/150*6 {
		synctest.Test(t, func(t *testing.T) {
			a, b := New(Config{Lease: time.Minute, Holder: true}), New(Config{Lease: time.Minute})
			network := faultnet.New(1)
			l, err := network.Host("b").Listen("b:1")
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			over := errors.New("the session is over")
			all.Go(func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					b.Attach(c)
				}
			})
			connections := 0
			all.Go(func() {
				for ; a.Err() == nil; connections++ {
					select {
					case <-a.Done():
						return
					case <-b.Done():
						// It has read all, and this end has not heard of it: dialin's launcher
						// refuses it now.
						a.Abort(over)
						return
					default:
					}
					c, err := network.Host("a").Dial(t.Context(), "b:1")
					if err != nil {
						return
					}
					// Each connection brings more than the one before it, so
					// that it ends in the end.
					<-a.Attach(&cutConn{Conn: c, left: n + connections})
				}
			})
			all.Go(func() {
				got := make([]byte, len(question))
				if _, err := io.ReadFull(b, got); err != nil || string(got) != question {
					t.Errorf("cut after %d bytes: asked %q, %v", n, got, err)
				}
				io.WriteString(b, answer)
				b.CloseWrite()
				if rest, err := io.ReadAll(b); err != nil || string(rest) != "bye" {
					t.Errorf("cut after %d bytes: at the end %q, %v, want bye", n, rest, err)
				}
			})
			io.WriteString(a, question)
			got, err := io.ReadAll(a)
			if err != nil || string(got) != answer {
				t.Errorf("cut after %d bytes: answered %q, %v", n, got, err)
			}
			io.WriteString(a, "bye")
			if err := a.Finish(t.Context()); err != nil && !errors.Is(err, over) {
				t.Errorf("cut after %d bytes: %v", n, err)
			}
			<-b.Done()
			l.Close()
			a.Abort(nil)
			b.Abort(nil)
			all.Wait()
			if n < 100 && connections < 2 {
				t.Errorf("cut after %d bytes: %d connections, want more", n, connections)
			}
		})
	}
}

// An end whose other end does not read keeps no more than the window, over as many connections as
// there are. It goes on when the other end reads.
func TestWriterWaitsForTheReader(t *testing.T) {
	run(t, 1, 4*time.Second, time.Millisecond, func(p *pair) {
		b := random(1, 3*Window)
		written := make(chan error, 1)
		go func() {
			_, err := p.agent.Write(b)
			p.agent.CloseWrite()
			written <- err
		}()
		for range 5 {
			time.Sleep(time.Second)
			p.net.Cut("agent", "launcher")
			p.agent.mu.Lock()
			out := p.agent.out.n
			p.agent.mu.Unlock()
			p.launcher.mu.Lock()
			in := p.launcher.in.n
			p.launcher.mu.Unlock()
			if out > Window || in > Window {
				t.Fatalf("%d bytes to send and %d to read, want at most %d", out, in, Window)
			}
		}
		select {
		case err := <-written:
			t.Fatalf("Write has returned, %v, and nobody has read", err)
		default:
		}
		got, err := io.ReadAll(p.launcher)
		if err != nil || !bytes.Equal(got, b) {
			t.Errorf("got %d bytes, %v, want %d, the same", len(got), err, len(b))
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
	})
}

// Abort ends calls that wait, and its error is theirs.
func TestAbortEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, gone := New(Config{}), errors.New("gone")
		results := make(chan error, 3)
		go func() { _, err := s.Read(make([]byte, 1)); results <- err }()
		go func() { _, err := s.Write(make([]byte, Window+1)); results <- err }()
		go func() { results <- s.Finish(t.Context()) }()
		synctest.Wait()
		s.Abort(gone)
		for range 3 {
			// Write may have ended by Finish's CloseWrite.
			if err := <-results; !errors.Is(err, gone) && !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v, want %v", err, gone)
			}
		}
		if _, err := s.Write([]byte("x")); !errors.Is(err, gone) {
			t.Errorf("Write after Abort: %v, want %v", err, gone)
		}
		nc, _ := net.Pipe()
		select {
		case <-s.Attach(nc):
		default:
			t.Error("a connection was attached after Abort")
		}
	})
}

// A scripted connection brings some bytes, and takes what is written.
type scripted struct {
	net.Conn
	in io.Reader
}

func (c *scripted) Read(p []byte) (int, error)       { return c.in.Read(p) }
func (c *scripted) Write(p []byte) (int, error)      { return len(p), nil }
func (c *scripted) Close() error                     { return nil }
func (c *scripted) SetReadDeadline(time.Time) error  { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }

func frames(all ...frame) (b []byte) {
	for _, f := range all {
		b = append(f.appendHead(b), make([]byte, max(f.n, 0))...)
	}
	return b
}

// What an end must not send ends the stream.
func TestInvalidFramesEndTheStream(t *testing.T) {
	full := make([]frame, 0, Window/maxData+2)
	for range cap(full) {
		full = append(full, frame{kind: kindData, n: maxData})
	}
	for _, tc := range []struct {
		name string
		in   []byte
		want string
	}{
		{"kind", frames(frame{kind: 'x'}), "kind 'x'"},
		{"data without bytes", frames(frame{kind: kindData}), "with 0 bytes"},
		{"large data", frames(frame{kind: kindData, n: maxData + 1}), "got a message of 65533 bytes, want at most 65532"},
		{"less than a head", frames(frame{kind: kindIdle, n: -1}), "frame of 12 bytes, want at least 13"},
		{"bytes of an end", frames(frame{kind: kindEnd, n: 1}), "with 1 bytes"},
		{"read more than was written", frames(frame{kind: kindIdle, read: 4}), "read up to 4, want 0 to 3"},
		{"read less than before", frames(frame{kind: kindIdle, read: 2}, frame{kind: kindIdle, read: 1}), "read up to 1, want 2 to"},
		{"data behind the end", frames(frame{kind: kindEnd}, frame{kind: kindData, n: 1}), "after the end"},
		{"two ends", frames(frame{kind: kindEnd}, frame{kind: kindEnd}), "after the end"},
		{"more than the window", frames(full...), "want at most 4194304"},
	} {
		s := New(Config{})
		s.Write([]byte("abc"))
		<-s.Attach(&scripted{in: bytes.NewReader(tc.in)})
		if err := s.Err(); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: ended with %v, want ErrProtocol with %q", tc.name, err, tc.want)
		}
		s.Abort(nil)
	}
}

// FuzzReceive: whatever comes, a stream does not panic, and keeps at most its window.
func FuzzReceive(f *testing.F) {
	f.Add(frames(frame{kind: kindIdle}, frame{kind: kindData, n: 5}, frame{kind: kindIdle, read: 3}, frame{kind: kindEnd, read: 4}), byte(9))
	f.Add(frames(frame{kind: kindIdle, read: 3, age: time.Hour}, frame{kind: kindData, n: 1}), byte(1))
	f.Fuzz(func(t *testing.T, in []byte, split byte) {
		s := New(Config{})
		s.Write([]byte("abc"))
		s.CloseWrite()
		cut := min(int(split), len(in))
		<-s.Attach(&scripted{in: bytes.NewReader(in[:cut])})
		if s.waiting() > 0 {
			s.Read(make([]byte, 2))
		}
		<-s.Attach(&scripted{in: bytes.NewReader(in[cut:])})
		if n := s.waiting(); n > Window {
			t.Errorf("%d bytes wait", n)
		}
		s.Abort(nil)
	})
}

func (s *Stream) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.in.n
}

// FuzzFrame: a head that can be read is written the same.
func FuzzFrame(f *testing.F) {
	f.Add(frame{kind: kindData, read: 1 << 40, age: time.Second, n: 7}.appendHead(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headSize {
			return
		}
		if f, err := parseHead(b[:headSize]); err == nil {
			if again := f.appendHead(nil); !bytes.Equal(again, b[:headSize]) {
				t.Errorf("%x became %x", b[:headSize], again)
			}
		}
	})
}

// A ring is a queue of bytes whatever the sizes, and gives its memory back.
func TestRing(t *testing.T) {
	var r ring
	var want []byte
	next := byte(0)
	for i := range 2000 {
		p := make([]byte, i*37%501)
		for j := range p {
			p[j] = next
			next++
		}
		r.append(p)
		want = append(want, p...)
		n := len(want) * (i % 5) / 4
		got := make([]byte, n)
		r.copyAt(got, 0)
		if !bytes.Equal(got, want[:n]) {
			t.Fatalf("step %d: the first %d bytes differ", i, n)
		}
		if n > 3 {
			r.copyAt(got[:n-3], 3)
			if !bytes.Equal(got[:n-3], want[3:n]) {
				t.Fatalf("step %d: bytes 3 to %d differ", i, n)
			}
		}
		r.discard(n)
		want = want[n:]
		if r.n != len(want) {
			t.Fatalf("step %d: %d bytes, want %d", i, r.n, len(want))
		}
	}
	r.append([]byte("x"))
	if r.release(); r.n != 1 || len(r.b) == 0 {
		t.Error("a ring with bytes has no memory")
	}
	r.discard(r.n)
	if r.release(); len(r.b) > 0 {
		t.Errorf("an empty ring keeps %d bytes", len(r.b))
	}
}

// BenchmarkStream writes 32 KB at a time, as package agent does with output:
//
//	go test -run '^$' -bench Stream ./internal/hosts/agent/resume
func BenchmarkStream(b *testing.B) {
	for _, over := range []string{"tls", "resume"} {
		b.Run(fmt.Sprintf("over=%s", over), func(b *testing.B) {
			from, to := tlsPair(b)
			var w io.Writer = from
			var r io.Reader = to
			if over == "resume" {
				x, y := New(Config{}), New(Config{Holder: true})
				x.Attach(from)
				y.Attach(to)
				defer x.Abort(nil)
				defer y.Abort(nil)
				w, r = x, y
			}
			p := make([]byte, 32<<10)
			b.SetBytes(int64(len(p)))
			done := make(chan struct{})
			go func() {
				defer close(done)
				io.CopyN(io.Discard, onlyReader{r}, int64(b.N)*int64(len(p)))
			}()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			b.ResetTimer()
			for range b.N {
				if _, err := w.Write(p); err != nil {
					b.Fatal(err)
				}
			}
			<-done
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N), "alloc-B/op")
		})
	}
}

type onlyReader struct{ io.Reader }
