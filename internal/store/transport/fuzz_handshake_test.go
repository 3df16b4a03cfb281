package transport

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A scripted connection has a peer that says some bytes, whatever it hears.
type scripted struct {
	*bytes.Reader
	heard int
}

func (c *scripted) Write(b []byte) (int, error)      { c.heard += len(b); return len(b), nil }
func (c *scripted) Close() error                     { return nil }
func (c *scripted) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "here", Net: "unix"} }
func (c *scripted) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "there", Net: "unix"} }
func (c *scripted) SetDeadline(time.Time) error      { return nil }
func (c *scripted) SetReadDeadline(time.Time) error  { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }

func script(b []byte) *scripted { return &scripted{Reader: bytes.NewReader(b)} }

// FuzzStranger: nobody gets in without the secret, whatever he says, as a client or as a server,
// and before he has proved it he hears no more than a hello. Past the secret, TLS stands.
func FuzzStranger(f *testing.F) {
	a, err := identity.NewAuthority("job")
	if err != nil {
		f.Fatal(err)
	}
	id, err := a.Issue(identity.Server, "server 0")
	if err != nil {
		f.Fatal(err)
	}
	hello := newHello(helloTLS)
	f.Add(hello[:], byte(0))
	f.Add(append(hello[:], make([]byte, 64)...), byte(1))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), byte(0))
	f.Add([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 0}, byte(2))
	f.Add([]byte{22, 3, 3, 0, 4, 2, 0, 0, 0}, byte(3))
	f.Fuzz(func(t *testing.T, b []byte, how byte) {
		cfg := Config{Secret: []byte("secret"), Identity: id}
		nc := script(b)
		var err error
		switch how % 4 {
		case 0:
			_, _, err = cfg.handshakeClient(nc, time.Time{})
		case 1:
			_, err = cfg.handshakeServer(nc, time.Time{})
		case 2:
			_, _, err = secureToClient(nc, id.Server())
		case 3:
			_, err = secureToServer(nc, id.Client())
		}
		if err == nil {
			t.Errorf("%q got in", b)
		}
		if most := helloSize + proofSize + 1; how%4 < 2 && nc.heard > most {
			t.Errorf("%q heard %d bytes, want at most %d", b, nc.heard, most)
		}
	})
}

// FuzzAnswers: whatever a server says, every call on the connection ends, and none touches more
// than its own memory.
func FuzzAnswers(f *testing.F) {
	frame := func(m wire.Message, payload int, id uint32) []byte {
		b := wire.AppendHead(make([]byte, wire.HeaderSize), m)
		wire.Header{Kind: m.Kind(), Head: len(b) - wire.HeaderSize, Payload: payload, ID: id}.Put(b)
		return append(b, make([]byte, payload)...)
	}
	f.Add(frame(&wire.Value{N: 25}, 100, 1))
	f.Add(append(frame(&wire.Nack{Code: 3, Text: "no"}, 0, 2), frame(&wire.Value{N: 2}, 8, 1)...))
	f.Add(frame(&wire.Value{N: 1 << 20}, 4<<20, 1)[:200])
	f.Add(frame(&wire.Ack{}, 0, 77))
	f.Fuzz(func(t *testing.T, b []byte) {
		cc := newClientConn("there", script(b), traffic{})
		memory := bytes.Repeat([]byte{0xa5}, 3*128)
		calls := make([]*call, 2)
		for i := range calls {
			calls[i] = newCall()
			calls[i].answer, calls[i].dst = &wire.Value{}, memory[128:256:256]
			if _, ok := cc.register(calls[i]); !ok {
				t.Fatal("a new connection takes no call")
			}
		}
		cc.kill(cc.read())
		for _, k := range calls {
			select {
			case <-k.done:
			default:
				t.Fatal("a call has not ended")
			}
			if k.err == nil && len(k.filled) > 128 {
				t.Errorf("an answer of %d bytes in 128", len(k.filled))
			}
		}
		if want := bytes.Repeat([]byte{0xa5}, 128); !bytes.Equal(memory[:128], want) || !bytes.Equal(memory[256:], want) {
			t.Error("memory beside the caller's was written")
		}
	})
}
