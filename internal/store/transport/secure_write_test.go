package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// A write that ran into its deadline goes on where it was, as often as it takes; every byte comes
// once.
func TestAWriteUnderTLSGoesOnAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, other := securePair(t)
		var want []byte
		var pieces net.Buffers
		for i, size := range []int{3, 700_000, 1, 16 << 10, 900_000, 70} {
			p := bytes.Repeat([]byte{byte(i + 1)}, size)
			p[size-1] = 0xff
			want = append(want, p...)
			pieces = append(pieces, p)
		}
		got := make([]byte, len(want))
		read := make(chan error, 1)
		go func() {
			for at := 0; at < len(got); { // slower than the writer's patience
				time.Sleep(30 * time.Millisecond)
				k, err := io.ReadFull(other, got[at:min(at+40_000, len(got))])
				if at += k; err != nil {
					read <- err
					return
				}
			}
			read <- nil
		}()
		deadlines := 0
		for {
			conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			err := conn.writeVector(&pieces)
			if err == nil {
				break
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			deadlines++
		}
		if err := <-read; err != nil {
			t.Fatal(err)
		}
		if deadlines == 0 || len(pieces) > 0 || !bytes.Equal(got, want) {
			t.Errorf("%d deadlines, %d pieces left, same bytes: %t; want some, none, true", deadlines, len(pieces), bytes.Equal(got, want))
		}
	})
}

// securePair returns the two ends of a connection whose handshake is over.
func securePair(t *testing.T) (client, server *secureConn) {
	t.Helper()
	a, err := identity.NewAuthority("job")
	if err != nil {
		t.Fatal(err)
	}
	worker, err := a.Issue(identity.Worker, "worker 0")
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Issue(identity.Server, "server 0")
	if err != nil {
		t.Fatal(err)
	}
	n := faultnet.New(1)
	ln, err := n.Host("s").Listen(":1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	x, err := n.Host("c").Dial(t.Context(), "s:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	y, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { y.Close() })
	accepted := make(chan net.Conn, 1)
	go func() {
		nc, _, err := secureToClient(y, id.Server(identity.Worker))
		if err != nil {
			t.Error(err)
		}
		accepted <- nc
	}()
	conn, err := secureToServer(x, worker.Client(identity.Server))
	if err != nil {
		t.Fatal(err)
	}
	other := <-accepted
	if t.Failed() {
		t.FailNow()
	}
	return conn.(*secureConn), other.(*secureConn)
}

// Pieces of all sizes come as one stream; a large piece fills its records, and small ones share
// theirs.
func TestPiecesUnderTLS(t *testing.T) {
	for _, tc := range []struct {
		sizes   []int
		records int64
	}{
		{[]int{1}, 1},
		{[]int{0, 0}, 0},
		{[]int{0, 7, 0, 9}, 1},
		{[]int{50, 64 << 10, 50, 1 << 20, 3}, 1 + 4 + 1 + 64 + 1},
		{[]int{recordBytes - 1, recordBytes, recordBytes + 1}, 1 + 1 + 2},
		{[]int{sealedBytes, sealedBytes + 1}, 16 + 16 + 1},
		{[]int{recordBytes / 2, recordBytes / 2, 1}, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			from, to := securePair(t)
			var pieces net.Buffers
			var want []byte
			for i, n := range tc.sizes {
				p := bytes.Repeat([]byte{byte(i + 1)}, n)
				pieces, want = append(pieces, p), append(want, p...)
			}
			written := make(chan error, 1)
			go func() { written <- from.writeVector(&pieces) }()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(to, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v: read error %v, the same bytes: %t", tc.sizes, err, bytes.Equal(got, want))
			}
			if err := <-written; err != nil || len(pieces) > 0 {
				t.Errorf("%v: %v, %d pieces left", tc.sizes, err, len(pieces))
			}
			if sent := from.out.Load(); sent < tc.records || sent > tc.records+int64(len(tc.sizes)) {
				t.Errorf("%v: %d records were counted, want %d, or one more a piece", tc.sizes, sent, tc.records)
			}
			if read := to.in.Load(); read < tc.records {
				t.Errorf("%v: the reader counted %d records, want at least %d", tc.sizes, read, tc.records)
			}
		})
	}
}

// Several goroutines may write: each write comes whole.
func TestManyWritersShareASecureConnection(t *testing.T) {
	const writers, writes, size = 4, 50, 40_000
	synctest.Test(t, func(t *testing.T) {
		from, to := securePair(t)
		for i := range writers {
			go func() {
				for range writes {
					if _, err := from.Write(bytes.Repeat([]byte{byte(i)}, size)); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		p := make([]byte, size)
		var came [writers]int
		for range writers * writes {
			if _, err := io.ReadFull(to, p); err != nil || !bytes.Equal(p, bytes.Repeat(p[:1], size)) {
				t.Fatalf("got error %v, or bytes of several writes", err)
			}
			came[p[0]]++
		}
		if came != [writers]int{writes, writes, writes, writes} {
			t.Errorf("got %v writes, want %d of each", came, writes)
		}
	})
}

// What waits sealed is bounded, whatever package tls has to say.
func TestWhatWaitsSealedIsBounded(t *testing.T) {
	x, y := net.Pipe()
	defer x.Close()
	defer y.Close()
	c := &heldConn{Conn: x}
	c.hold()
	for range heldBytes / recordBytes {
		if _, err := c.Write(make([]byte, recordBytes)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := c.Write(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("one byte more: took %d, error %v; want an error", n, err)
	}
	if len(c.buf) != heldBytes {
		t.Errorf("%d bytes wait, want %d", len(c.buf), heldBytes)
	}
}

// A busyConn is a connection whose peer asks for new keys while it takes what is written: each
// write meets an answer of package tls.
type busyConn struct {
	net.Conn
	held    *heldConn
	answers int // that are left
	written int
}

func (c *busyConn) Write(b []byte) (int, error) {
	c.written += len(b)
	if c.answers--; c.answers >= 0 {
		if _, err := c.held.Write(make([]byte, 32)); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// What was written does not stay in memory, even if there is always something more to write.
func TestWrittenBytesAreNotKeptWhileMoreIsHeld(t *testing.T) {
	const answers = 1 << 16
	b := &busyConn{answers: answers}
	c := &heldConn{Conn: b}
	b.held = c
	c.hold()
	if _, err := c.Write(make([]byte, recordBytes)); err != nil {
		t.Fatal(err)
	}
	if err := c.flush(); err != nil {
		t.Fatal(err)
	}
	if want := recordBytes + 32*answers; b.written != want {
		t.Errorf("%d bytes were written, want %d", b.written, want)
	}
	if most := 4 * recordBytes; cap(c.buf) > most {
		t.Errorf("the memory for what is held has grown to %d bytes, want at most %d", cap(c.buf), most)
	}
}

// A connection carries no more records than its keys may seal: new calls take a new one, and those
// under way end where they began.
func TestSpentKeysAreReplaced(t *testing.T) {
	for _, reader := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			from, _ := securePair(t)
			cc := newClientConn("s:1", from, traffic{})
			k := newCall()
			if _, ok := cc.register(k); !ok || !cc.usable() {
				t.Fatal("a new connection takes no calls")
			}
			counter := &from.out
			if reader {
				counter = &from.in
			}
			counter.Store(recordsOfKeys)
			if cc.usable() {
				t.Error("the keys are spent, and the connection takes new calls")
			}
			if _, ok := cc.register(newCall()); ok || cc.err != nil {
				t.Errorf("registered a new call: %t, error %v; want no call, and an open connection for the one under way", ok, cc.err)
			}
			cc.takeCall(1)
			if cc.usable() || cc.err == nil {
				t.Error("the last call has ended, and the connection stays")
			}
		})
	}
}

// A record that is not the next one of the other end says so, and nothing of it is read.
func TestAChangedRecordIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := securePair(t)
		go from.under.Conn.Write(append([]byte{23, 3, 3, 0, 100}, make([]byte, 100)...)) // the head of a record, and no seal
		p := make([]byte, 50)
		if n, err := to.Read(p); n != 0 || !errors.Is(err, errRecord) || !bytes.Equal(p, make([]byte, 50)) {
			t.Errorf("got %d bytes, %v, want none and %v", n, err, errRecord)
		}
		go from.Write([]byte("good, and too late"))
		if n, err := to.Read(p); n != 0 || !errors.Is(err, errRecord) {
			t.Errorf("after it: got %d bytes, %v, want the error again", n, err)
		}
		from.Close()
	})
}
