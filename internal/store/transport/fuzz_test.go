package transport_test

import (
	"io"
	"testing"
	"time"

	. "github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// FuzzServer writes any bytes to a connection that has proved itself. Whatever they are, the server
// goes on: what it answers is frames, the connection ends, and another one works.
func FuzzServer(f *testing.F) {
	frame := func(m wire.Message, payload int, id uint32) []byte {
		b := make([]byte, wire.HeaderSize)
		b = wire.AppendHead(b, m)
		wire.Header{Kind: m.Kind(), Head: len(b) - wire.HeaderSize, Payload: payload, ID: id}.Put(b)
		return append(b, make([]byte, payload)...)
	}
	f.Add(frame(&wire.Push{}, 100, 1))
	f.Add(append(frame(&wire.Heartbeat{}, 0, 1), frame(&wire.Pull{Round: 10}, 0, 2)...))
	f.Add(frame(&wire.Pull{}, 0, 1)[:20])
	f.Add([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	n := faultnet.New(1)
	ln, err := n.Host("s").Listen("s:7000")
	if err != nil {
		f.Fatal(err)
	}
	h := new(handler)
	h.buffer = func(r *Request, size int) ([]byte, error) {
		if size > 1<<20 {
			return nil, Refuse(wire.CodeSize, 0, "too much")
		}
		return make([]byte, size), nil
	}
	s := NewServer(ln, h, Config{Logger: quiet()})
	go s.Serve()
	f.Cleanup(func() { s.Close() })
	other := NewClient("s:7000", Config{Network: n.Host("o"), Connections: 1})
	f.Cleanup(func() { other.Close() })
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 64<<10 {
			return
		}
		nc := raw(t, n)
		nc.SetDeadline(time.Now().Add(5 * time.Second))
		go func() {
			nc.Write(b)
			time.AfterFunc(5*time.Millisecond, func() { nc.SetReadDeadline(time.Now()) })
		}()
		var header [wire.HeaderSize]byte
		for {
			if _, err := io.ReadFull(nc, header[:]); err != nil {
				break // the server closed the connection, or waits for the rest of a frame
			}
			h, err := wire.ParseHeader(header[:])
			if err != nil {
				t.Fatalf("an answer that is no frame: %v", err)
			}
			if m := wire.New(h.Kind); m == nil {
				t.Fatalf("an answer of %v", h.Kind)
			}
			if _, err := io.CopyN(io.Discard, nc, int64(h.Head)+int64(h.Payload)); err != nil {
				break
			}
		}
		nc.Close()
		if _, err := other.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
			t.Fatalf("another connection: %v", err)
		}
	})
}
